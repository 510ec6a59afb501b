//! Questions to the person: which keys answer a permission question, and what a form's fields take.
//!
//! Pure; the conversation prints the choices and reads the lines.

use agent_client_protocol::v1::schema::{
    ElicitationContentValue, ElicitationPropertySchema, ElicitationSchema, MultiSelectItems,
    PermissionOption, PermissionOptionId, PermissionOptionKind, RequestPermissionOutcome,
    SelectedPermissionOutcome,
};
use std::collections::BTreeMap;

/// Key that stops the turn.
pub const CANCEL: &str = "c";

/// One way to answer a permission question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What is typed for it.
    pub key: String,
    /// The agent's words for it.
    pub label: String,
    /// What is answered.
    pub option_id: PermissionOptionId,
}

/// The choices of a permission question: by letter, or by number where a letter would mean several.
pub fn choices(options: &[PermissionOption]) -> Vec<Choice> {
    let letter = |kind| match kind {
        PermissionOptionKind::AllowOnce => "y",
        PermissionOptionKind::AllowAlways => "a",
        PermissionOptionKind::RejectOnce => "n",
        PermissionOptionKind::RejectAlways => "never",
        _ => "",
    };
    let mut letters: Vec<&str> = options.iter().map(|option| letter(option.kind)).collect();
    letters.sort_unstable();
    letters.dedup();
    let by_letter = letters.len() == options.len() && !letters.contains(&"");
    (options.iter().enumerate())
        .map(|(index, option)| Choice {
            key: if by_letter { letter(option.kind).to_owned() } else { (index + 1).to_string() },
            label: option.name.clone(),
            option_id: option.option_id.clone(),
        })
        .collect()
}

/// The choice that was typed.
pub fn chosen<'a>(choices: &'a [Choice], typed: &str) -> Option<&'a Choice> {
    let typed = typed.trim();
    let word = match typed.to_lowercase().as_str() {
        "yes" => "y".to_owned(),
        "no" => "n".to_owned(),
        "always" => "a".to_owned(),
        other => other.to_owned(),
    };
    choices.iter().find(|choice| choice.key == word)
}

/// The answer that lets a call run once; where only a lasting one is offered, that.
pub fn allow(options: &[PermissionOption]) -> RequestPermissionOutcome {
    first(options, &[PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways])
}

/// The answer when nobody can be asked.
pub fn reject(options: &[PermissionOption]) -> RequestPermissionOutcome {
    first(options, &[PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways])
}

fn first(options: &[PermissionOption], kinds: &[PermissionOptionKind]) -> RequestPermissionOutcome {
    let option = kinds.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind));
    option.map_or(RequestPermissionOutcome::Cancelled, |option| selected(&option.option_id))
}

/// The outcome that names an option.
pub fn selected(option_id: &PermissionOptionId) -> RequestPermissionOutcome {
    RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option_id.clone()))
}

/// One question of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Name of the property.
    pub key: String,
    /// What it is called.
    pub title: String,
    /// What it asks; may be empty.
    pub description: String,
    /// Whether it must be answered.
    pub required: bool,
    /// What it takes.
    pub kind: FieldKind,
}

/// What a field takes.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    /// Words.
    Text,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// Yes or no.
    Flag,
    /// One of these.
    One(Vec<FieldChoice>),
    /// Any of these.
    Many(Vec<FieldChoice>),
}

/// A value that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChoice {
    /// What is answered.
    pub value: String,
    /// What is shown, description included.
    pub label: String,
}

/// The questions of a form, in the order of their names; `None` when one of them is of a kind not known here.
pub fn fields(schema: &ElicitationSchema) -> Option<Vec<Field>> {
    let required = schema.required.as_deref().unwrap_or_default();
    let field = |(key, property): (&String, &ElicitationPropertySchema)| {
        let (title, description, kind) = match property {
            ElicitationPropertySchema::String(property) => {
                let titled = property.one_of.as_ref().map(|options| options.iter().map(titled).collect());
                let plain = || {
                    property
                        .enum_values
                        .as_ref()
                        .map(|values| values.iter().map(|value| untitled(value)).collect())
                };
                let kind = titled.or_else(plain).map_or(FieldKind::Text, FieldKind::One);
                (&property.title, &property.description, kind)
            }
            ElicitationPropertySchema::Integer(property) => {
                (&property.title, &property.description, FieldKind::Integer)
            }
            ElicitationPropertySchema::Number(property) => {
                (&property.title, &property.description, FieldKind::Number)
            }
            ElicitationPropertySchema::Boolean(property) => {
                (&property.title, &property.description, FieldKind::Flag)
            }
            ElicitationPropertySchema::Array(property) => {
                let choices = match &property.items {
                    MultiSelectItems::String(items) => {
                        items.values.iter().map(|value| untitled(value)).collect()
                    }
                    MultiSelectItems::Titled(items) => items.options.iter().map(titled).collect(),
                    _ => return None,
                };
                (&property.title, &property.description, FieldKind::Many(choices))
            }
            _ => return None,
        };
        Some(Field {
            key: key.clone(),
            title: title.clone().unwrap_or_else(|| key.clone()),
            description: description.clone().unwrap_or_default(),
            required: required.contains(key),
            kind,
        })
    };
    schema.properties.iter().map(field).collect()
}

fn titled(option: &agent_client_protocol::v1::schema::EnumOption) -> FieldChoice {
    let label = match &option.description {
        Some(description) => format!("{} — {description}", option.title),
        None => option.title.clone(),
    };
    FieldChoice { value: option.value.clone(), label }
}

fn untitled(value: &str) -> FieldChoice {
    FieldChoice { value: value.to_owned(), label: value.to_owned() }
}

impl Field {
    /// What may be typed.
    pub fn hint(&self) -> String {
        let what = match &self.kind {
            FieldKind::Text => "words",
            FieldKind::Integer => "a whole number",
            FieldKind::Number => "a number",
            FieldKind::Flag => "y or n",
            FieldKind::One(_) => "its number",
            FieldKind::Many(_) => "numbers, as in 1,3",
        };
        if self.required { what.to_owned() } else { format!("{what}; Enter to skip") }
    }

    /// The value that was typed; `None` when the field was skipped.
    ///
    /// # Errors
    /// What to type instead.
    pub fn parse(&self, typed: &str) -> Result<Option<ElicitationContentValue>, String> {
        let typed = typed.trim();
        if typed.is_empty() {
            return if self.required { Err("An answer is needed.".to_owned()) } else { Ok(None) };
        }
        let value = match &self.kind {
            FieldKind::Text => ElicitationContentValue::String(typed.to_owned()),
            FieldKind::Integer => ElicitationContentValue::Integer(
                typed.parse().map_err(|_| "A whole number, please.".to_owned())?,
            ),
            FieldKind::Number => {
                let number: f64 = typed.parse().map_err(|_| "A number, please.".to_owned())?;
                ElicitationContentValue::Number(
                    Some(number).filter(|n| n.is_finite()).ok_or("A number, please.")?,
                )
            }
            FieldKind::Flag => match typed.to_lowercase().as_str() {
                "y" | "yes" | "true" => ElicitationContentValue::Boolean(true),
                "n" | "no" | "false" => ElicitationContentValue::Boolean(false),
                _ => return Err("y or n, please.".to_owned()),
            },
            FieldKind::One(choices) => ElicitationContentValue::String(pick(choices, typed)?),
            FieldKind::Many(choices) => {
                let picked: Result<Vec<String>, String> =
                    typed.split(',').map(|part| pick(choices, part.trim())).collect();
                ElicitationContentValue::StringArray(picked?)
            }
        };
        Ok(Some(value))
    }

    /// Whether another answer makes this one needless: the free text beside a choice that was made.
    pub fn is_answered_by(&self, values: &BTreeMap<String, ElicitationContentValue>) -> bool {
        !self.required && self.key.strip_suffix("_other").is_some_and(|key| values.contains_key(key))
    }
}

fn pick(choices: &[FieldChoice], typed: &str) -> Result<String, String> {
    let by_number = typed.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
    let choice = by_number.or_else(|| choices.iter().find(|choice| choice.value == typed));
    choice
        .map(|choice| choice.value.clone())
        .ok_or_else(|| format!("A number from 1 to {}, please.", choices.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol::v1::schema::{EnumOption, MultiSelectPropertySchema, StringPropertySchema};

    fn option(id: &'static str, kind: PermissionOptionKind) -> PermissionOption {
        PermissionOption::new(id, id, kind)
    }

    fn keys(options: &[PermissionOption]) -> Vec<String> {
        choices(options).into_iter().map(|choice| choice.key).collect()
    }

    #[test]
    fn kinds_have_letters_and_several_of_a_kind_have_numbers() {
        use PermissionOptionKind::{AllowAlways, AllowOnce, RejectOnce};
        let usual = [option("once", AllowOnce), option("always", AllowAlways), option("no", RejectOnce)];
        assert_eq!(keys(&usual), ["y", "a", "n"]);
        let question = [option("pnpm", AllowOnce), option("npm", AllowOnce), option("cancel", RejectOnce)];
        assert_eq!(keys(&question), ["1", "2", "3"]);
    }

    #[test]
    fn what_is_typed_chooses() {
        use PermissionOptionKind::{AllowOnce, RejectOnce};
        let choices = choices(&[option("once", AllowOnce), option("no", RejectOnce)]);
        for (typed, expected) in [
            (" y ", Some("once")),
            ("Yes", Some("once")),
            ("n", Some("no")),
            ("a", None),
            ("", None),
            ("c", None),
        ] {
            assert_eq!(chosen(&choices, typed).map(|choice| &*choice.option_id.0), expected, "{typed:?}");
        }
    }

    #[test]
    fn nobody_to_ask_means_no() {
        use PermissionOptionKind::{AllowAlways, AllowOnce, RejectOnce};
        let options = [option("always", AllowAlways), option("once", AllowOnce), option("no", RejectOnce)];
        assert_eq!(allow(&options), selected(&PermissionOptionId::new("once")));
        assert_eq!(reject(&options), selected(&PermissionOptionId::new("no")));
        assert_eq!(reject(&options[..2]), RequestPermissionOutcome::Cancelled);
    }

    #[test]
    fn fields_take_what_their_schema_says() {
        let titled = EnumOption::new("pnpm", "pnpm").description("fast".to_owned());
        let schema = ElicitationSchema::new()
            .property(
                "a",
                StringPropertySchema::new().one_of(vec![titled, EnumOption::new("npm", "npm")]),
                true,
            )
            .property("a_other", StringPropertySchema::new().title("Other"), false)
            .property("b", MultiSelectPropertySchema::new(vec!["x".to_owned(), "y".to_owned()]), false);
        let fields = fields(&schema).unwrap();
        let [a, other, b] = fields.as_slice() else { panic!("{fields:?}") };
        let text = |text: &str| ElicitationContentValue::String(text.to_owned());
        assert_eq!(a.parse("1"), Ok(Some(text("pnpm"))));
        assert_eq!(a.parse("npm"), Ok(Some(text("npm"))));
        assert_eq!(a.parse("3"), Err("A number from 1 to 2, please.".to_owned()));
        assert_eq!(a.parse(" "), Err("An answer is needed.".to_owned()));
        let both = vec!["y".to_owned(), "x".to_owned()];
        assert_eq!(b.parse("2, 1"), Ok(Some(ElicitationContentValue::StringArray(both))));
        assert_eq!(b.parse(""), Ok(None));
        assert!(other.is_answered_by(&BTreeMap::from([("a".to_owned(), text("npm"))])));
        assert!(!other.is_answered_by(&BTreeMap::new()));
    }
}
