//! The module `files`, which opens all these files.

use super::common::{Dir, chmod, is_root, mode};
use super::{NOBODY, Outside, Plant, give_to_nobody, say_if_not_root};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};
use weft_config::files::{self, Directory, Owner};

type Operation = (&'static str, fn(&Directory) -> io::Result<()>);

/// All operations on a name.
const OPERATIONS: [Operation; 12] = [
    ("read", |directory| directory.read("name", 100).map(drop)),
    ("read as text", |directory| directory.read_text("name", 100).map(drop)),
    ("write", |directory| directory.write("name", b"written\n")),
    ("replace", |directory| directory.replace_with_empty("name").map(drop)),
    ("create", |directory| directory.create(OsStr::new("name"), 0o600, b"created\n").map(drop)),
    ("append", |directory| directory.append("name", b"appended\n")),
    ("lock", |directory| directory.lock("name").map(drop)),
    ("enter", |directory| directory.enter("name").and_then(|entered| entered.write("stamp", b"written\n"))),
    ("make", |directory| directory.make_in("name").and_then(|made| made.write("stamp", b"written\n"))),
    ("bind", |directory| directory.bind(OsStr::new("name"), 0o600).map(drop)),
    ("open", |directory| files::open(&directory.path().join("name")).map(drop)),
    ("connect", |directory| files::connect(&directory.path().join("name")).map(drop)),
];

#[test]
fn no_operation_follows_what_is_planted_at_its_name() {
    say_if_not_root();
    let dir = Dir::new();
    let outside = Outside::new(&dir);
    for plant in Plant::ALL {
        for (what, operation) in OPERATIONS {
            let place = dir.path("place");
            let _ = fs::remove_dir_all(&place);
            plant.put(&place.join("name"), &outside);
            give_to_nobody(&place);
            let (before, began) = (outside.snapshot(), Instant::now());
            let result = operation(&Directory::open(&place).unwrap());
            assert!(began.elapsed() < Duration::from_secs(2), "{what}, {plant:?}");
            assert_eq!(outside.snapshot(), before, "{what}, {plant:?}");
            let is_fine = match what {
                "write" | "replace" => plant != Plant::Directory,
                "enter" | "make" => plant == Plant::Directory,
                _ => false,
            };
            assert_eq!(result.is_ok(), is_fine, "{what}, {plant:?}: {result:?}");
            let is_explained =
                |why: &io::Error| why.raw_os_error().is_none() && why.to_string().contains("move it away");
            // Two errors need no advice: the file to be created exists, and no process listens.
            let needs_none = what == "create" || plant == Plant::LinkToNothing && what == "append";
            assert!(needs_none || result.as_ref().err().is_none_or(is_explained), "{what}, {plant:?}: {result:?}");
        }
    }
}

#[test]
fn a_symbolic_link_is_followed_only_where_no_other_user_can_create_it() {
    let dir = Dir::new();
    let outside = Outside::new(&dir);
    symlink(&outside.0, dir.path("link")).unwrap();
    symlink("link/file", dir.path("file")).unwrap();
    let make = |path: &Path| Directory::make(path, 0o700, Owner::Parent);
    make(&dir.path("link/directory/made/twice")).unwrap();
    files::create(&dir.path("link/created"), 0o600, b"").unwrap();
    files::open(&dir.path("file")).unwrap();

    chmod(&dir.0, 0o770);
    let before = outside.snapshot();
    refuses(&dir);
    if is_root() {
        chmod(&dir.0, 0o700);
        chown(&dir.0, Some(NOBODY), None).unwrap();
        refuses(&dir);
    }
    assert_eq!(outside.snapshot(), before);
}

fn refuses(dir: &Dir) {
    let link = dir.path("link");
    let why = |result: io::Result<()>| result.unwrap_err().to_string();
    for text in [
        why(Directory::open(&link).map(drop)),
        why(Directory::make(&link.join("new"), 0o700, Owner::Parent).map(drop)),
        why(files::create(&link.join("new"), 0o600, b"")),
        why(files::bind(&link.join("new"), 0o600).map(drop)),
        why(files::open(&dir.path("file")).map(drop)),
        why(files::open(&link.join("file")).map(drop)),
    ] {
        assert!(text.contains("another user may have planted"), "{text}");
    }
}

#[test]
fn links_that_lead_in_a_circle_end() {
    let dir = Dir::new();
    symlink("circle", dir.path("circle")).unwrap();
    assert!(Directory::open(&dir.path("circle/x")).is_err());
    assert!(files::open(&dir.path("circle")).is_err());
}

#[test]
fn files_are_replaced_appended_and_limited() {
    let dir = Dir::new();
    let directory = Directory::open(&dir.0).unwrap();
    assert_eq!(directory.read("file", 5).unwrap_err().kind(), ErrorKind::NotFound);
    directory.write("file", b"first").unwrap();
    directory.write("file", b"other").unwrap();
    assert_eq!(directory.read_text("file", 5).unwrap(), "other");
    assert!(directory.read("file", 4).unwrap_err().to_string().contains("longer than 4 bytes"));
    directory.append("file", b" \xff").unwrap();
    directory.append("new", b"new").unwrap();
    assert!(directory.read_text("file", 100).unwrap_err().to_string().contains("not UTF-8"));
    let mut names = directory.names().unwrap();
    names.retain(|name| !name.starts_with("..") && name != ".");
    names.sort();
    assert_eq!((names, mode(&dir.path("file"))), (vec!["file".to_owned(), "new".to_owned()], 0o600));
    assert_eq!(fs::metadata(dir.path("file")).unwrap().nlink(), 1);
}

#[test]
fn sockets_replace_dead_ones_and_leave_those_in_use() {
    let dir = Dir::new();
    let path = dir.path("run/socket");
    let (listener, file) = files::bind(&path, 0o660).unwrap();
    assert_eq!(mode(&path), 0o660);
    files::connect(&path).unwrap();
    assert_eq!(files::bind(&path, 0o600).unwrap_err().kind(), ErrorKind::AddrInUse);
    drop((listener, file));
    assert_eq!(files::connect(&path).unwrap_err().kind(), ErrorKind::NotFound);
    drop(UnixListener::bind(&path).unwrap());
    await_refusal(&path);
    let _dead_one_is_replaced = files::bind(&path, 0o600).unwrap();
    assert_eq!(mode(&path), 0o600);
}

/// Waits until no process listens. A program that another test starts has a copy of the listener until its `exec`.
fn await_refusal(path: &Path) {
    let began = Instant::now();
    while files::connect(path).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(files::connect(path).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn the_client_does_not_wait_for_a_listener_that_accepts_no_connection() {
    let dir = Dir::new();
    let path = dir.path("socket");
    let (_listener, _file) = files::bind(&path, 0o600).unwrap();
    let (began, mut waiting) = (Instant::now(), Vec::new());
    while let Ok(stream) = files::connect(&path) {
        waiting.push(stream);
        assert!(waiting.len() < 10_000);
    }
    assert_eq!(files::bind(&path, 0o600).unwrap_err().kind(), ErrorKind::AddrInUse);
    assert!(began.elapsed() < Duration::from_secs(2));
}
