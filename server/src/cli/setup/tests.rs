//! What is printed, and what becomes of an editor's file.

use super::change::{Change, Changed, apply};
use super::*;
use instructions::instructions;
use serde_json::{Value, json};

const AWKWARD: &str = "/opt/my \"tools\"/o'k/followspot";

/// The part between the first and the last brace.
fn snippet(editor: Editor, program: &str) -> Value {
    let text = instructions(editor, Path::new(program));
    let (start, end) = (text.find('{').unwrap(), text.rfind('}').unwrap());
    serde_json::from_str(&text[start..=end]).unwrap()
}

#[test]
fn settings_in_json_name_the_program_and_the_server() {
    let entry = json!({ "command": AWKWARD, "args": ["acp"], "env": {} });
    let zed = json!({ "type": "custom", "command": AWKWARD, "args": ["acp"], "env": {} });
    let jetbrains = json!({
        "command": AWKWARD, "args": ["acp"], "env": {}, "use_idea_mcp": true, "use_custom_mcp": true,
    });
    assert_eq!(snippet(Editor::Zed, AWKWARD), json!({ "agent_servers": { "Followspot": zed } }));
    assert_eq!(snippet(Editor::Vscode, AWKWARD), json!({ "acp.agents": { "Followspot": entry } }));
    assert_eq!(snippet(Editor::Jetbrains, AWKWARD), json!({ "agent_servers": { "Followspot": jetbrains } }));
    assert_eq!(
        snippet(Editor::Acpx, "/bin/followspot"),
        json!({ "agents": { "followspot": { "command": "/bin/followspot acp" } } })
    );
}

#[test]
fn the_other_settings_quote_the_program_as_their_language_does() {
    let cases = [
        (Editor::Neovim, r#"{ default = { "/opt/my \"tools\"/o'k/followspot", "acp" } }"#),
        (Editor::Neovim, r#"command = "/opt/my \"tools\"/o'k/followspot", args"#),
        (Editor::Emacs, r#":command "/opt/my \"tools\"/o'k/followspot""#),
    ];
    for (editor, part) in cases {
        let text = instructions(editor, Path::new(AWKWARD));
        assert!(text.contains(part), "{text}");
    }
    let toad = instructions(Editor::Toad, Path::new("/bin/followspot"));
    assert!(toad.contains("toad acp '/bin/followspot acp' ."), "{toad}");
}

#[test]
fn every_editor_has_instructions() {
    for editor in Editor::value_variants() {
        let text = instructions(*editor, Path::new("/bin/followspot"));
        assert!(text.contains("/bin/followspot") && text.ends_with('\n'), "{text}");
    }
}

/// The texts after putting the entry in, after putting it in once more, and after taking it out.
fn put_twice_and_take(editor: Editor, before: &str) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings");
    std::fs::write(&file, before).unwrap();
    let entry = entry::of(editor, Path::new("/bin/followspot"));
    let put = apply(Change::Put, &entry, &file).unwrap();
    let Changed::Yes { backup: Some(backup) } = put else { panic!("{put:?}") };
    assert_eq!(std::fs::read_to_string(backup).unwrap(), before);
    let with = std::fs::read_to_string(&file).unwrap();
    assert_eq!(apply(Change::Put, &entry, &file), Ok(Changed::No));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), with);
    apply(Change::Take, &entry, &file).unwrap();
    assert_eq!(apply(Change::Take, &entry, &file), Ok(Changed::No));
    (with, std::fs::read_to_string(&file).unwrap_or_default())
}

#[test]
fn what_the_user_wrote_keeps_its_bytes() {
    let zed = "// Mine.\n{\n  \"theme\": \"One Dark\", // dark\n  \"agent_servers\": {\n    \"Other\": { \"command\": \"other\" }, // keep\n  },\n  /* end */\n}\n";
    let (with, without) = put_twice_and_take(Editor::Zed, zed);
    assert_eq!(
        with,
        "// Mine.\n{\n  \"theme\": \"One Dark\", // dark\n  \"agent_servers\": {\n    \"Other\": { \"command\": \"other\" }, // keep\n    \"Followspot\": {\n      \"type\": \"custom\",\n      \"command\": \"/bin/followspot\",\n      \"args\": [\"acp\"],\n      \"env\": {}\n    },\n  },\n  /* end */\n}\n"
    );
    assert_eq!(without, zed);
}

#[test]
fn putting_in_and_taking_out_leaves_what_was_there() {
    let cases = [
        (Editor::Zed, "{\n  \"theme\": \"x\"\n}\n"),
        (Editor::Zed, "{\r\n    \"theme\": \"x\"\r\n}\r\n"),
        (Editor::Vscode, "{\n\t\"editor.tabSize\": 2\n}"),
        (Editor::Jetbrains, "{\n  \"agent_servers\": {\n    \"a\": {}\n  }\n}\n"),
        (Editor::Acpx, "{\n  \"agents\": {\n    \"a\": {\"command\":\"a\"}\n  }\n}\n"),
        (Editor::Emacs, ";; mine\n(setq x 1)\n"),
        (Editor::Emacs, ";; mine\r\n(setq x 1)\r\n"),
        (Editor::Neovim, "-- mine\n"),
    ];
    for (editor, before) in cases {
        let (with, without) = put_twice_and_take(editor, before);
        assert!(with.contains("/bin/followspot"), "{with}");
        assert_eq!(without, before, "{with}");
        let is_crlf = before.contains("\r\n");
        assert_eq!(with.lines().count() > 1 && with.contains("\r\n"), is_crlf, "{with:?}");
    }
}

#[test]
fn a_missing_or_empty_file_is_made() {
    let folder = tempfile::tempdir().unwrap();
    for editor in
        [Editor::Zed, Editor::Vscode, Editor::Jetbrains, Editor::Neovim, Editor::Emacs, Editor::Acpx]
    {
        let file = folder.path().join(format!("{editor:?}/a/settings"));
        let entry = entry::of(editor, Path::new("/bin/followspot"));
        assert_eq!(apply(Change::Take, &entry, &file), Ok(Changed::No));
        assert_eq!(apply(Change::Put, &entry, &file), Ok(Changed::Yes { backup: None }));
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("/bin/followspot") && text.ends_with('\n'), "{text:?}");
        if let Some(document) = entry.document() {
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
        }
        assert_eq!(apply(Change::Put, &entry, &file), Ok(Changed::No));
    }
}

#[test]
fn a_moved_program_is_named_anew_and_the_users_additions_stay() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings.json");
    let mine = json!({ "agent_servers": { "Followspot": {
        "type": "custom", "command": "/old/followspot", "args": ["acp"], "env": { "A": "1" }, "default_mode": "ask",
    } } });
    std::fs::write(&file, mine.to_string()).unwrap();
    apply(Change::Put, &entry::of(Editor::Zed, Path::new("/new/followspot")), &file).unwrap();
    let mut expected = mine;
    expected["agent_servers"]["Followspot"]["command"] = json!("/new/followspot");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
}

#[test]
fn a_file_that_is_not_understood_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings");
    let cases = [
        (Editor::Zed, "{ \"a\": ", "line 1"),
        (Editor::Zed, "[1]", "outermost value"),
        (Editor::Zed, "{ \"agent_servers\": 3 }", "\"agent_servers\" is no object"),
        (Editor::Zed, "{ a: 1 }", "line 1"),
        (Editor::Emacs, ";; followspot: begin\n(x)\n", "only one of the marks"),
    ];
    for (editor, text, problem) in cases {
        std::fs::write(&file, text).unwrap();
        let entry = entry::of(editor, Path::new("/bin/followspot"));
        let message = apply(Change::Put, &entry, &file).unwrap_err();
        assert!(message.contains(problem) && message.contains("without --write"), "{message}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
    std::fs::write(&file, b"\xff\xfe").unwrap();
    let entry = entry::of(Editor::Zed, Path::new("/bin/followspot"));
    assert!(apply(Change::Put, &entry, &file).unwrap_err().contains("no UTF-8"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link_and_a_mode_stays() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real.json"), folder.path().join("settings.json"));
    std::fs::write(&real, "{}").unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    apply(Change::Put, &entry::of(Editor::Zed, Path::new("/bin/followspot")), &link).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(&real).unwrap().contains("/bin/followspot"));
}

#[test]
fn a_file_of_ours_alone_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("followspot.lua");
    let entry = entry::of(Editor::Neovim, Path::new("/bin/followspot"));
    apply(Change::Put, &entry, &file).unwrap();
    apply(Change::Take, &entry, &file).unwrap();
    assert!(!file.exists());
}

#[test]
fn emacs_finds_the_init_file_that_emacs_would_read() {
    let (home, config) = (Path::new("/h"), Path::new("/h/.config"));
    let cases: [(&[&str], &str); 5] = [
        (&[], "/h/.emacs.d/init.el"),
        (&["/h/.config/emacs"], "/h/.config/emacs/init.el"),
        (&["/h/.emacs.d", "/h/.config/emacs"], "/h/.emacs.d/init.el"),
        (&["/h/.emacs", "/h/.emacs.d/init.el"], "/h/.emacs"),
        (&["/h/.config/emacs/init.el", "/h/.emacs.d"], "/h/.config/emacs/init.el"),
    ];
    for (existing, expected) in cases {
        let exists = |path: &Path| existing.iter().any(|name| Path::new(name) == path);
        assert_eq!(place(Editor::Emacs, home, config, &exists), PathBuf::from(expected));
    }
}
