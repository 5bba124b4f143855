//! Manual pages and shell completions, made from a program's own command line.

use clap::Command;
use clap_complete::Shell;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Writes the pages and completions of a program below the directory that the only argument names.
pub fn main(command: Command) -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1) else {
        eprintln!("the directory that stands for /usr is missing");
        return ExitCode::from(2);
    };
    match write(command, Path::new(&directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{}: {why}", directory.display());
            ExitCode::FAILURE
        }
    }
}

/// Writes the pages and completions of a program at their places below a directory that stands for /usr.
fn write(command: Command, directory: &Path) -> io::Result<()> {
    let name = command.get_name().to_owned();
    let man = directory.join("share/man/man1");
    fs::create_dir_all(&man)?;
    clap_mangen::generate_to(command.clone(), &man)?;
    let places = [
        (Shell::Bash, format!("share/bash-completion/completions/{name}")),
        (Shell::Zsh, format!("share/zsh/vendor-completions/_{name}")),
        (Shell::Fish, format!("share/fish/vendor_completions.d/{name}.fish")),
    ];
    for (shell, place) in places {
        let file = directory.join(place);
        fs::create_dir_all(file.parent().unwrap_or(directory))?;
        clap_complete::generate(shell, &mut command.clone(), &name, &mut File::create(file)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    #[test]
    fn every_command_has_a_page_and_every_shell_its_completions() {
        let directory = std::env::temp_dir().join(format!("weft-pages-{}", std::process::id()));
        let verb = Command::new("up").about("Run the node").arg(Arg::new("config").long("config").help("File"));
        write(Command::new("weft").about("A network").subcommand(verb), &directory).unwrap();
        let read = |place: &str| fs::read_to_string(directory.join(place)).unwrap_or_default();
        assert!(read("share/man/man1/weft.1").contains("A network"));
        assert!(read("share/man/man1/weft-up.1").contains("config"));
        for place in
            ["bash-completion/completions/weft", "zsh/vendor-completions/_weft", "fish/vendor_completions.d/weft.fish"]
        {
            assert!(read(&format!("share/{place}")).contains("config"), "{place}");
        }
        fs::remove_dir_all(directory).unwrap();
    }
}
