//! Property: after a run, however it ended, `resolv.conf` is what it was before.

use super::*;
use std::os::unix::fs::{MetadataExt as _, symlink};
use weft_units::Rng;

/// Bytes, target of a symbolic link, mode and inode of the file with a name.
type FileState = Option<(Vec<u8>, Option<PathBuf>, u32, u64)>;

fn seen(path: &Path) -> FileState {
    let meta = fs::symlink_metadata(path).ok()?;
    Some((fs::read(path).unwrap_or_default(), fs::read_link(path).ok(), meta.mode(), meta.ino()))
}

/// Makes a `resolv.conf` of a drawn kind in a new directory.
fn draw(rng: &mut Rng, number: u32) -> PathBuf {
    let at = std::env::temp_dir().join(format!("weft-resolv-{}-{number}-{}", std::process::id(), rng.next_u64()));
    fs::create_dir_all(at.join("etc")).unwrap();
    let file = at.join("etc").join(FILE);
    let bytes: Vec<u8> = (0..rng.below(300)).map(|_| rng.next_u64() as u8).collect();
    match rng.below(4) {
        0 => {}
        1 => {
            fs::write(&file, bytes).unwrap();
            fs::set_permissions(&file, Permissions::from_mode([0o644, 0o600, 0o666][rng.below(3) as usize])).unwrap();
        }
        2 => {
            fs::write(at.join("elsewhere"), bytes).unwrap();
            symlink("../elsewhere", &file).unwrap();
        }
        _ => symlink("../no/such/file", &file).unwrap(),
    }
    at
}

#[test]
fn any_file_or_link_comes_back_byte_for_byte_after_kills_and_changes() {
    let mut rng = Rng::new(33);
    for number in 0..200 {
        let at = draw(&mut rng, number);
        let (etc, file) = (at.join("etc"), at.join("etc").join(FILE));
        let (before, elsewhere) = (seen(&file), seen(&at.join("elsewhere")));
        for _ in 0..=rng.below(4) {
            // A killed run leaves nothing but its files, so each round stands for a new run.
            let host = rng.below(250) as u8;
            let conf = ResolvConf::new(&etc, Path::new("/run/weft/control.sock"));
            conf.replace(&[IpAddr::from([10, 9, 0, host])], &["corp.example".to_owned()]).unwrap();
            let text = fs::read_to_string(&file).unwrap();
            assert!(text.contains(&format!("nameserver 10.9.0.{host}\n")) && text.contains("search corp.example\n"));
            assert_eq!(fs::symlink_metadata(&file).unwrap().mode() & 0o7777, 0o644);
            assert_eq!(seen(&at.join("elsewhere")), elsewhere, "the link is not written through");
        }
        if before.is_some() && rng.chance(0.3) {
            // The files are those of a run that was killed between the two steps of a replacement.
            let other = draw(&mut rng, number);
            let (etc, file) = (other.join("etc"), other.join("etc").join(FILE));
            let before = seen(&file);
            if before.is_some() {
                Directory::open(&etc).unwrap().link(FILE, BEFORE).unwrap();
            }
            ResolvConf::new(&etc, Path::new("/run/weft/control.sock")).restore().unwrap();
            assert_eq!((seen(&file), seen(&etc.join(BEFORE))), (before, None));
            fs::remove_dir_all(other).unwrap();
        }
        let another = ResolvConf::new(&etc, Path::new("/run/other.sock"));
        assert!(!another.restore().unwrap(), "another node's file stays");
        assert!(ResolvConf::new(&etc, Path::new("/run/weft/control.sock")).restore().unwrap());
        assert_eq!((seen(&file), seen(&etc.join(BEFORE))), (before, None), "{number}");
        fs::remove_dir_all(at).unwrap();
    }
}

#[test]
fn a_file_that_another_program_wrote_since_stays() {
    let at = draw(&mut Rng::new(1), 1000);
    let etc = at.join("etc");
    let conf = ResolvConf::new(&etc, Path::new("control.sock"));
    conf.replace(&[IpAddr::from([10, 9, 0, 2])], &[]).unwrap();
    fs::write(etc.join(FILE), "nameserver 192.0.2.1\n").unwrap();
    assert!(!conf.restore().unwrap());
    assert_eq!(fs::read_to_string(etc.join(FILE)).unwrap(), "nameserver 192.0.2.1\n");
    assert!(!etc.join(BEFORE).exists());
    // Another program has written the present file. The next replacement keeps it as the previous file.
    conf.replace(&[IpAddr::from([10, 9, 0, 2])], &[]).unwrap();
    assert!(conf.restore().unwrap());
    assert_eq!(fs::read_to_string(etc.join(FILE)).unwrap(), "nameserver 192.0.2.1\n");
    fs::remove_dir_all(at).unwrap();
}

#[test]
fn systemd_resolved_is_recognised_by_the_link_or_the_address() {
    let at = draw(&mut Rng::new(2), 2000);
    let (etc, file) = (at.join("etc"), at.join("etc").join(FILE));
    let conf = ResolvConf::new(&etc, Path::new("control.sock"));
    for (text, is_it) in
        [("nameserver 127.0.0.53\noptions edns0\n", true), ("# nameserver 127.0.0.53\nnameserver 192.0.2.1\n", false)]
    {
        let _ = fs::remove_file(&file);
        fs::write(&file, text).unwrap();
        assert_eq!(conf.asks_resolved(), is_it, "{text}");
    }
    fs::remove_file(&file).unwrap();
    symlink("../run/systemd/resolve/stub-resolv.conf", &file).unwrap();
    assert!(conf.asks_resolved());
    fs::remove_dir_all(at).unwrap();
}

/// Property: a node without servers of its own, which starts meanwhile, takes nothing from a node that sets servers.
#[test]
fn two_nodes_of_a_machine_do_not_disturb_each_other() {
    let mut rng = Rng::new(34);
    for number in 0..40 {
        let at = draw(&mut rng, 1_000 + number);
        let (etc, file) = (at.join("etc"), at.join("etc").join(FILE));
        let before = seen(&file);
        let other = ResolvConf::new(&etc, Path::new("/run/weft/other.sock"));
        std::thread::scope(|scope| {
            let starts = scope.spawn(|| (0..300).all(|_| other.restore().is_ok_and(|is_restored| !is_restored)));
            for _ in 0..5 {
                let own = ResolvConf::new(&etc, Path::new("/run/weft/control.sock"));
                own.replace(&[IpAddr::from([10, 9, 0, 2])], &[]).unwrap();
                assert_eq!(seen(&etc.join(BEFORE)), before, "kept while weft's file is there");
                assert!(own.restore().unwrap());
                assert_eq!(seen(&file), before);
            }
            assert!(starts.join().unwrap());
        });
        fs::remove_dir_all(&at).unwrap();
    }
}
