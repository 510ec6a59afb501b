//! `skill`: loads instructions kept in a file. Touches nothing but that file. Source: `spec/tools-agentic.md` §6.4.

use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::Effect;
use pipeline::typed::TypedTool;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use protocol::tool::ToolFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use services::skills::{Skill, is_skill_name, render_skill};
use std::path::Path;

/// Arguments of `skill`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SkillArgs {
    /// Name of the skill, as the list of available skills gives it.
    pub name: String,
}

/// A loaded skill.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SkillOutput {
    /// Name of the skill.
    name: String,
    /// Where it comes from.
    provider: String,
    /// What its relative paths belong to.
    resource_base: ResourceBase,
    /// Its instructions.
    content: String,
}

/// The folder of a skill.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResourceBase {
    /// What kind of place it is: `directory`.
    kind: String,
    /// Absolute.
    path: String,
}

/// The tool.
pub struct SkillTool;

#[async_trait]
impl TypedTool for SkillTool {
    type Args = SkillArgs;
    type Output = SkillOutput;

    const NAME: &'static str = "skill";

    fn description(&self) -> String {
        "Loads the instructions of a skill by its name. Load a skill before you begin work that its description \
         matches, then follow it. Its files are read with the other tools, only as the task needs them."
            .to_owned()
    }

    fn is_concurrency_safe(&self, _args: &SkillArgs) -> bool {
        true
    }

    fn effect(&self, _args: &SkillArgs) -> Effect {
        Effect::None
    }

    async fn execute(&self, args: SkillArgs, ctx: &ToolContext) -> Result<SkillOutput, ToolFailure> {
        let name = args.name;
        if !is_skill_name(&name) {
            return Err(ToolFailure::plain(format!(
                "\"{name}\" cannot name a skill: names are lower-case letters and digits in groups joined by hyphens"
            )));
        }
        let unknown = || {
            ToolFailure::plain(format!("there is no skill \"{name}\"; use a name from the list of skills"))
        };
        let skills = ctx.services().skills.as_ref().ok_or_else(unknown)?;
        // Before it is read, and again with what was read: the file may change in between.
        let list = skills.list(ctx.cwd()).await;
        may_load(list.skills.iter().find(|skill| skill.name == name).ok_or_else(unknown)?)?;
        let loaded = ctx.cancel.run_until_cancelled(skills.load(&name, ctx.cwd())).await;
        let loaded = loaded.ok_or_else(ToolFailure::aborted)?.ok_or_else(unknown)?;
        may_load(&loaded.skill)?;
        Ok(SkillOutput {
            name: loaded.skill.name,
            provider: loaded.skill.provider.to_owned(),
            resource_base: ResourceBase {
                kind: "directory".to_owned(),
                path: loaded.skill.base.to_string_lossy().into_owned(),
            },
            content: loaded.content,
        })
    }

    fn render(&self, _args: &SkillArgs, output: &SkillOutput) -> Vec<ContentBlock> {
        let text = render_skill(&output.name, Path::new(&output.resource_base.path), &output.content);
        vec![ContentBlock::text(text)]
    }

    fn present_call(&self, args: &SkillArgs) -> Option<CallCard> {
        Some(CallCard::Generic(GenericCall {
            title: format!("Load skill {}", args.name),
            kind: ToolCallKind::Read,
            ..GenericCall::default()
        }))
    }
}

fn may_load(skill: &Skill) -> Result<(), ToolFailure> {
    if skill.for_model {
        return Ok(());
    }
    Err(ToolFailure::plain(format!(
        "the skill \"{0}\" is for people only: the user loads it with /{0}",
        skill.name
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use serde_json::json;

    #[tokio::test]
    async fn a_skill_is_loaded_with_the_folder_of_its_files() {
        let bench = Bench::new();
        bench.world().skills.put("demo-skill", "Shows how", "Read `a.md` & <begin>.");
        let ran = bench.call("skill", json!({"name": "demo-skill"})).await;
        let expected = json!({
            "name": "demo-skill", "provider": "project-followspot",
            "resourceBase": {"kind": "directory", "path": "/skills/demo-skill"},
            "content": "Read `a.md` & <begin>.",
        });
        assert_eq!(*ran.value(), expected);
        let text = ran.text();
        assert!(text.starts_with("<skill_content name=\"demo-skill\">"), "{text}");
        assert!(text.contains("Base directory: /skills/demo-skill"), "{text}");
        assert!(
            text.contains("<skill_instructions>\nRead `a.md` & <begin>.\n</skill_instructions>"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn what_cannot_be_loaded_says_why() {
        let bench = Bench::new();
        bench.world().skills.change("hidden", "For people", "x", |skill| skill.for_model = false);
        let cases = [
            ("Bad Name", "\"Bad Name\" cannot name a skill"),
            ("missing", "there is no skill \"missing\""),
            ("hidden", "the user loads it with /hidden"),
        ];
        for (name, expected) in cases {
            let ran = bench.call("skill", json!({ "name": name })).await;
            assert!(ran.failure().message.contains(expected), "{}", ran.failure().message);
            assert!(ran.failure().info.is_none(), "these failures have no code");
        }
    }

    #[tokio::test]
    async fn the_card_names_the_skill() {
        let bench = Bench::new();
        let CallCard::Generic(card) = bench.call_card("skill", json!({"name": "demo"})) else {
            panic!("another card")
        };
        assert_eq!((card.title.as_str(), card.kind), ("Load skill demo", ToolCallKind::Read));
        assert!(bench.tool("skill").is_concurrency_safe(&json!({"name": "demo"})));
    }
}
