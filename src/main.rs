//! The program `headgate`: see [`headgate::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    headgate::cli::main()
}
