//! Pictures on the built program: what the model is sent, what people see, live and on load.

use crate::kit::*;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// One red pixel.
const GIF: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\x00\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

/// A grey PNG of this size, its data stored without compression.
fn png(width: u32, height: u32) -> Vec<u8> {
    let row = [vec![0], vec![0x80; width as usize]].concat();
    let raw = row.repeat(height as usize);
    let mut data = vec![0x78, 0x01];
    let mut pieces = raw.chunks(0xffff).peekable();
    while let Some(piece) = pieces.next() {
        let length = u16::try_from(piece.len()).unwrap();
        data.push(u8::from(pieces.peek().is_none()));
        data.extend_from_slice(&length.to_le_bytes());
        data.extend_from_slice(&(!length).to_le_bytes());
        data.extend_from_slice(piece);
    }
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in &raw {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    data.extend_from_slice(&(b << 16 | a).to_be_bytes());
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 0, 0, 0, 0]].concat();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, body) in [(b"IHDR", header), (b"IDAT", data), (b"IEND", Vec::new())] {
        let checked = [kind.as_slice(), &body].concat();
        file.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
        file.extend_from_slice(&checked);
        file.extend_from_slice(&crc32(&checked).to_be_bytes());
    }
    file
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
    })
}

/// Width and height by the header of a PNG.
fn size_of(png: &[u8]) -> (u32, u32) {
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

const SEES: &str = "[providers.openai]\ntakes_images = true\n";

fn read_image(path: &str) -> provider_llm::scripted::Reply {
    calls("read_image", json!({ "file_path": path }))
}

/// The images in a card, as bytes.
fn shown(update: &Value) -> Vec<Vec<u8>> {
    let items = update["content"].as_array().cloned().unwrap_or_default();
    let images = items.iter().filter(|item| item["content"]["type"] == "image");
    images.map(|item| BASE64_STANDARD.decode(item["content"]["data"].as_str().unwrap()).unwrap()).collect()
}

#[test]
fn a_large_picture_is_scaled_down_sent_shown_and_told_again() {
    let mut run = scenario()
        .config(SEES)
        .file("big.png", png(3000, 1500))
        .model(read_image("big.png"))
        .model(says("Grey."))
        .prompt("look");
    let result = &run.results_for_model()[0];
    assert!(result.contains("image/png, 2048x1024 px"), "{result}");
    assert!(result.contains("3000x1500 px; multiply coordinates by 1.46"), "{result}");
    let end = run.updates("tool_call_update").pop().unwrap();
    assert_eq!(end["status"], "completed");
    let images = shown(&end);
    assert_eq!(images.iter().map(|image| size_of(image)).collect::<Vec<_>>(), [(2048, 1024)]);
    // What people see is what the model was sent.
    let request = run.model().requests().last().unwrap().to_string();
    assert!(request.contains(&BASE64_STANDARD.encode(&images[0])), "the image is not in the request");
    let before = run.updates("tool_call_update").len();
    run.restart();
    run.about_session("session/load").unwrap();
    let again: Vec<_> =
        run.updates("tool_call_update").iter().chain(&run.updates("tool_call")).flat_map(shown).collect();
    assert!(again.contains(&images[0]), "{before} updates before");
}

#[test]
fn what_is_no_picture_for_a_model_is_refused_with_the_remedy() {
    let mut bomb = png(1, 1);
    bomb[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
    let sum = crc32(&bomb[12..29]).to_be_bytes();
    bomb[29..33].copy_from_slice(&sum);
    let whole = png(40, 40);
    let cases: [(&str, &[u8], &str); 6] = [
        ("dot.GIF", GIF, "image/gif, 1x1 px"),
        ("text.png", b"text", "no image of a known kind"),
        ("dot.png", GIF, "image/gif"),
        ("bomb.png", &bomb, "30000x30000 px"),
        ("half.png", &whole[..whole.len() / 2], "damaged"),
        ("note.txt", b"text", "does not end in"),
    ];
    let mut arranged = scenario().config(SEES);
    for (name, bytes, _) in cases {
        arranged = arranged.file(name, bytes).model(read_image(name));
    }
    let run = arranged.model(read_image(".")).model(says("Done.")).prompt("look");
    let results = run.results_for_model();
    for ((name, _, fact), result) in cases.iter().zip(&results) {
        assert!(result.contains(fact), "{name}: {result}");
    }
    assert!(run.process().peak_memory() < 200 << 20, "{}", run.process().peak_memory());
}

#[test]
fn a_model_that_is_not_known_to_see_reads_no_file() {
    let run = scenario().file("a.gif", GIF).model(read_image("a.gif")).model(says("Oh.")).prompt("look");
    let end = run.updates("tool_call_update").pop().unwrap();
    assert_eq!(end["status"], "failed");
    assert!(
        run.results_for_model()[0].contains("takes images")
            || run.results_for_model()[0].contains("take images")
    );
}
