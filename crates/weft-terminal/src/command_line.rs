//! Reads a program's command line, and prints help and mistakes.

use crate::fold::fold_help;
use crate::{size, wants_color};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error, Parser};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use weft_units::nearest;

/// Width of help where no terminal sets it, and its maximum, in columns.
const COLUMNS: usize = 100;

/// Reads the command line of this process.
///
/// Prints help, the version or a mistake and ends the process if there is nothing else to do.
pub fn parse<T: Parser>() -> T {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let columns = columns();
    read(&arguments, columns).unwrap_or_else(|why| {
        let text = fold_help(&why.render().to_string(), columns);
        if why.use_stderr() {
            print(io::stderr(), &text)
        } else {
            print(io::stdout(), &text)
        }
        std::process::exit(why.exit_code())
    })
}

fn read<T: Parser>(arguments: &[OsString], columns: usize) -> Result<T, Error> {
    let mut command = T::command().term_width(columns);
    let read = command.try_get_matches_from_mut(arguments);
    let read = read.and_then(|mut found| T::from_arg_matches_mut(&mut found).map_err(|why| why.format(&mut command)));
    read.map_err(|why| with_tip(why, T::command(), arguments))
}

/// Returns the columns of the terminal that this process has as its output or input, but at most 100.
fn columns() -> usize {
    let terminal = size(io::stdout()).or_else(|| size(io::stderr())).or_else(|| size(io::stdin()));
    let named = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    terminal.map(|(columns, _)| columns).or_else(named).map_or(COLUMNS, |columns| columns.min(COLUMNS))
}

/// Adds the known name that an unknown one probably stands for.
fn with_tip(mut why: Error, mut command: Command, arguments: &[OsString]) -> Error {
    let text = |kind| match why.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let tip = match why.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand);
            let at = reached(&mut command, arguments, &word);
            let known = at.get_subcommands().filter(|of| !of.is_hide_set()).map(Command::get_name);
            let found = nearest(&word, known).map(|name| ContextValue::Strings(vec![name.to_owned()]));
            found.map(|found| (ContextKind::SuggestedSubcommand, found))
        }
        ErrorKind::UnknownArgument => {
            let word = text(ContextKind::InvalidArg);
            let at = reached(&mut command, arguments, &word);
            let known = at.get_arguments().filter(|of| !of.is_hide_set()).filter_map(|of| of.get_long());
            let found = word.strip_prefix("--").and_then(|name| nearest(name, known));
            found.map(|name| (ContextKind::SuggestedArg, ContextValue::String(format!("--{name}"))))
        }
        ErrorKind::InvalidValue => {
            let known = match why.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(known)) => known.as_slice(),
                _ => &[],
            };
            let found = nearest(&text(ContextKind::InvalidValue), known.iter().map(String::as_str));
            found.map(|value| (ContextKind::SuggestedValue, ContextValue::String(value.to_owned())))
        }
        _ => None,
    };
    if let Some((kind, value)) = tip {
        // The name explains the mistake. Without it, clap proposes to pass the word as a value.
        why.remove(ContextKind::Suggested);
        why.insert(kind, value);
    }
    why
}

/// Returns the subcommand that the arguments before `word` lead to.
fn reached<'a>(command: &'a mut Command, arguments: &[OsString], word: &str) -> &'a Command {
    // Each subcommand gets the global options.
    command.build();
    let arguments = arguments.iter().filter_map(|argument| argument.to_str());
    let before = arguments.take_while(|argument| argument.split('=').next() != Some(word));
    before.fold(&*command, |at, argument| at.find_subcommand(argument).unwrap_or(at))
}

/// Writes a text, with emphasis where the stream shows colours. A reader that has gone is no mistake.
fn print(mut stream: impl Write + IsTerminal, text: &str) {
    let text = if wants_color(&stream) { emphasised(text) } else { text.to_owned() };
    let _ = stream.write_all(text.as_bytes());
}

/// Emphasises headings, the word `error` and the word `tip`.
fn emphasised(text: &str) -> String {
    let emphasise = |line: &str| {
        let (content, end) = line.split_at(line.trim_end().len());
        let is_heading = content.ends_with(':') && !content.starts_with(' ');
        match content {
            _ if is_heading => format!("\x1b[1;4m{content}\x1b[0m{end}"),
            _ if content.starts_with("Usage:") => line.replacen("Usage:", "\x1b[1;4mUsage:\x1b[0m", 1),
            _ if content.starts_with("error:") => line.replacen("error:", "\x1b[1;31merror:\x1b[0m", 1),
            _ if content.starts_with("  tip:") => line.replacen("tip:", "\x1b[32mtip:\x1b[0m", 1),
            _ => line.to_owned(),
        }
    };
    text.split_inclusive('\n').map(emphasise).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program.
    #[derive(Parser, Debug)]
    #[command(name = "program")]
    struct Program {
        /// When to colour the output of all the commands of this program
        #[arg(long, global = true, value_parser = ["auto", "never"])]
        color: Option<String>,
        #[command(subcommand)]
        command: Verb,
    }

    #[derive(clap::Subcommand, Debug)]
    enum Verb {
        /// Show the state
        Status {
            /// Show it again
            #[arg(long)]
            watch: bool,
            /// Names
            names: Vec<String>,
        },
        /// Run
        Up,
    }

    fn mistake(arguments: &[&str]) -> String {
        let arguments: Vec<OsString> = [&["program"][..], arguments].concat().iter().map(Into::into).collect();
        read::<Program>(&arguments, COLUMNS).unwrap_err().to_string()
    }

    #[test]
    fn the_nearest_name_is_proposed() {
        for (arguments, tip) in [
            (&["stauts"][..], "  tip: a similar subcommand exists: 'status'\n"),
            (&["status", "--wach"], "  tip: a similar argument exists: '--watch'\n"),
            (&["up", "--colour=never"], "  tip: a similar argument exists: '--color'\n"),
            (&["up", "--color", "nevr"], "  tip: a similar value exists: 'never'\n"),
        ] {
            assert!(mistake(arguments).contains(tip), "{}", mistake(arguments));
            assert_eq!(mistake(arguments).matches("tip:").count(), 1, "{}", mistake(arguments));
        }
        for arguments in [&["xyz"][..], &["up", "--xyz"], &["up", "--color", "xyz"]] {
            assert!(!mistake(arguments).contains("tip:"), "{}", mistake(arguments));
        }
    }

    #[test]
    fn help_is_as_wide_as_the_terminal() {
        let arguments = ["program", "--help"].map(OsString::from);
        let help = read::<Program>(&arguments, 50).unwrap_err().render().to_string();
        let folded = fold_help(&help, 50);
        assert!(folded.lines().all(|line| line.chars().count() <= 50), "{folded}");
        assert!(emphasised(&folded).contains("\x1b[1;4mOptions:\x1b[0m\n"), "{folded}");
    }
}
