//! Checks as root that the doctor detects files that another user may not open, and settings that a unit lacks.

use super::*;
use std::os::unix::fs::PermissionsExt as _;

const PACKAGED: &str = include_str!("../../../../../packaging/weft.service");

struct TemporaryUnit(PathBuf);

impl TemporaryUnit {
    fn new(name: &str, unit: &str) -> TemporaryUnit {
        let root = std::env::temp_dir().join(format!("weft-service-{name}-{}", std::process::id()));
        fs::create_dir_all(root.join(UNIT_DIRECTORIES[3])).unwrap();
        fs::write(root.join(UNIT_DIRECTORIES[3]).join(UNIT), unit).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        TemporaryUnit(root)
    }

    fn file(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for TemporaryUnit {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_that_only_root_may_open_is_reported() {
    if !Uid::effective().is_root() {
        eprintln!("skipped: only root can test as another user");
        return;
    }
    let place = TemporaryUnit::new("modes", &PACKAGED.replace("User=weft", "User=nobody"));
    let service = Service::find(&place.0).unwrap().unwrap();
    assert_eq!(service.net_admin().verdict, Verdict::Good, "{service:?}");
    for (mode, verdict) in [(0o600, Verdict::Bad), (0o640, Verdict::Bad), (0o644, Verdict::Bad), (0o666, Verdict::Good)]
    {
        let check = service.tun(&place.file("tun", mode));
        assert_eq!(check.verdict, verdict, "{mode:o}: {check:?}");
        assert!(check.found.contains("the user nobody"), "{check:?}");
    }
    assert!(OpenOptions::new().write(true).open(place.file("tun", 0o600)).is_ok(), "root's own rights stay");
}

#[test]
fn missing_settings_of_the_unit_are_reported() {
    if !Uid::effective().is_root() {
        return;
    }
    let unit = "[Service]\nUser=nobody\nDevicePolicy=closed\nAmbientCapabilities=CAP_NET_ADMIN\nAmbientCapabilities=\n";
    let place = TemporaryUnit::new("lacks", unit);
    let service = Service::find(&place.0).unwrap().unwrap();
    assert_eq!(service.net_admin().verdict, Verdict::Bad);
    assert_eq!(service.tun(&place.file("tun", 0o666)).found, "weft.service does not allow access to /dev/net/tun");
    let nobody = TemporaryUnit::new("user", "[Service]\nUser=nonesuch-weft\n");
    assert!(Service::find(&nobody.0).unwrap_err().found.contains("no such user"));
    assert_eq!(Service::find(Path::new("/nonexistent")), Ok(None));
}
