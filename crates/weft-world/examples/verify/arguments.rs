//! Parses the command line.

use crate::topic::Topic;
use std::path::PathBuf;

const USAGE: &str = "verify TOPIC [--full] [--out FILE] [--traces DIR] [--weft PATH] [--threads N] [--only PART]…";

/// The topic to verify, and the options.
pub struct Arguments<'a> {
    /// The topic to verify.
    pub topic: &'a Topic,
    /// True to run all checks, however long they take.
    pub full: bool,
    /// File for the checks as JSON.
    pub out: Option<PathBuf>,
    /// Directory of recorded links, in Mahimahi's format.
    pub traces: Option<PathBuf>,
    /// The program, for checks on this machine's kernel.
    pub weft: Option<PathBuf>,
    /// Number of runs at the same time.
    pub threads: usize,
    /// Names of the topic's parts to run. An empty list selects all.
    only: Vec<String>,
}

impl<'a> Arguments<'a> {
    /// Parses the words of a command line.
    ///
    /// # Errors
    /// Returns an error that lists the valid names if a topic, part or option is not known, or if an option
    /// lacks its value.
    pub fn read(words: &[String], topics: &'a [Topic]) -> Result<Arguments<'a>, String> {
        let (name, options) = words.split_first().ok_or_else(|| usage("no topic is named", topics))?;
        let topic = topics.iter().find(|topic| topic.name == name);
        let topic = topic.ok_or_else(|| usage(&format!("there is no topic `{name}`"), topics))?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut read = Arguments { topic, full: false, out: None, traces: None, weft: None, threads, only: Vec::new() };
        let mut options = options.iter();
        while let Some(option) = options.next() {
            if option == "--full" {
                read.full = true;
                continue;
            }
            let value = options.next().ok_or_else(|| usage(&format!("`{option}` needs a value"), topics))?;
            read.set(option, value).map_err(|why| usage(&why, topics))?;
        }
        Ok(read)
    }

    fn set(&mut self, option: &str, value: &str) -> Result<(), String> {
        match option {
            "--out" => self.out = Some(value.into()),
            "--traces" => self.traces = Some(value.into()),
            "--weft" => self.weft = Some(value.into()),
            "--threads" => {
                let threads = value.parse().ok().filter(|threads| *threads > 0);
                self.threads = threads.ok_or_else(|| format!("`{value}` is not a number of threads"))?;
            }
            "--only" => {
                let names: Vec<&str> = self.topic.parts.iter().map(|part| part.name).collect();
                if !names.contains(&value) {
                    return Err(format!(
                        "there is no part `{value}`; topic {} has {}",
                        self.topic.name,
                        names.join(", ")
                    ));
                }
                self.only.push(value.to_owned());
            }
            _ => return Err(format!("there is no option `{option}`")),
        }
        Ok(())
    }

    /// True if this part must run.
    pub fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }
}

fn usage(why: &str, topics: &[Topic]) -> String {
    let names: Vec<&str> = topics.iter().map(|topic| topic.name).collect();
    format!("{why}\n{USAGE}\ntopics: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::Part;

    const TOPICS: [Topic; 1] = [Topic { name: "links", parts: &[Part { name: "bundles", run: |_| Vec::new() }] }];

    fn read(text: &str) -> Result<Arguments<'static>, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Arguments::read(&words, &TOPICS)
    }

    #[test]
    fn options_are_read_in_any_order() {
        let read = read("links --out a.json --full --only bundles --threads 3").unwrap();
        assert!(read.full && read.wants("bundles") && !read.wants("tables"));
        assert_eq!((read.out, read.threads), (Some("a.json".into()), 3));
    }

    #[test]
    fn an_unknown_argument_is_refused_with_the_valid_ones() {
        let error = |text| read(text).err().unwrap();
        assert!(error("lanes").contains("no topic `lanes`") && error("lanes").contains("topics: links"));
        assert!(error("").contains("topics: links"));
        assert!(error("links --only bundle").contains("has bundles"));
        assert!(error("links --threads 0").contains("`0`") && error("links --out").contains("needs a value"));
        assert!(error("links --fast x").contains("`--fast`"));
    }
}
