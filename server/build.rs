//! Links the program at a fixed address on x86-64 Linux: relocating the libraries it links costs more than its own
//! start-up does. The measurement is in ARCHITECTURE.md, "Start-up".

fn main() {
    let is = |key: &str, value: &str| {
        std::env::var(format!("CARGO_CFG_TARGET_{key}")).is_ok_and(|actual| actual == value)
    };
    if is("OS", "linux") && is("ENV", "gnu") && is("ARCH", "x86_64") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
