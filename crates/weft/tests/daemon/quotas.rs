//! Tiers and quotas of links, on a kernel: limits on the use of a link, and their survival of restarts.

use crate::common::{on_two_nodes, stderr, stdout};

/// Shell functions: `used LINK` prints the counted bytes, `carried LINK` those of the kernel, and `load` sends 60 pings of
/// 1,000 bytes.
const SHELL: &str = r#"
    used() { run home status --json | python3 -c 'import json,sys; print(*(l["quota"]["used_bytes"] for l in json.load(sys.stdin)["links"] if l["name"] == "'$1'" and "quota" in l))'; }
    carried() { ip netns exec home awk -v link="$1:" '$1 == link { print $2 + $10 }' /proc/net/dev; }
    load() { ip netns exec home ping -q -c 60 -i 0.02 -s 1000 -w 5 10.9.0.2 | grep -o ', 0% packet loss'; }
"#;

/// A backup link carries nothing beside a primary one; `never` takes it out; without the primary one it carries all.
#[test]
fn a_backup_link_waits_for_its_turn() {
    let commands = r#"
        printf '[[link]]\nname = "link2"\ntier = "backup"\n' >>home.toml; up hub; up home; logged home "session established"; settled
        load; a=$(carried link2); load; b=$(carried link2); echo "beside: $((b - a < 20000))"
        ip -n home link set link1 down; sleep 0.3; a=$(carried link2); load; b=$(carried link2); echo "alone: $((b - a > 100000))"
        ip -n home link set link1 up; sed -i 's/"backup"/"never"/' home.toml; run home reload
        for _ in $(seq 100); do run home paths | grep -q "link1 .*good" && break; sleep 0.1; done
        echo "links: $(run home status --json | python3 -c 'import json,sys; print(*(l["name"] for l in json.load(sys.stdin)["links"]))')""#;
    let Some((_, out)) = on_two_nodes(&[SHELL, commands].concat()) else { return };
    let text = stdout(&out);
    for line in ["beside: 1", "alone: 1", "links: link1"] {
        assert!(text.lines().any(|of| of == line), "no {line}\n{text}\n{}", stderr(&out));
    }
}

/// Usage is that of the interface, also of the time while no node ran. A quota that is used up changes the link at once.
#[test]
fn a_quota_counts_on_over_restarts_and_ends_the_link_s_use() {
    let commands = r#"
        printf '[[link]]\nname = "link2"\nquota = "400 kB"\nquota-per = "day"\nquota-reached = "never"\n' >>home.toml
        up hub; up home; logged home "session established"; settled; sleep 1.2; begin=$(carried link2); base=$(used link2)
        ip -n home link set link1 down; load; sleep 1.2; a=$(used link2); echo "counted: $((a - base)) of $(($(carried link2) - begin))"
        kill -9 $home; wait $home; ip netns exec hub ping -q -c 20 -i 0.02 -s 1000 -w 3 192.0.2.33 >/dev/null
        up home; sleep 2.2; b=$(used link2); echo "again: $((b - base)) of $(($(carried link2) - begin))"
        logged home "session established"; load; for _ in 1 2 3; do load; done
        ip -n home link set link1 up; logged home "used up: the link is not used any more"
        for _ in $(seq 100); do run home paths | grep -q "link1 .*good" && break; sleep 0.1; done
        echo "links: $(run home status --json | python3 -c 'import json,sys; print(*(l["name"] for l in json.load(sys.stdin)["links"]))')"
        load; grep -o "link link2: .* used: .*" home.log; run home status | grep "link link2""#;
    let Some((_, out)) = on_two_nodes(&[SHELL, commands].concat()) else { return };
    let text = stdout(&out);
    let show = || format!("{text}\n{}", stderr(&out));
    for what in ["counted: ", "again: "] {
        let line = text.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_else(|| panic!("{}", show()));
        let numbers: Vec<f64> = line.split(" of ").filter_map(|number| number.parse().ok()).collect();
        assert!(numbers[0] > 60_000.0 && (numbers[0] / numbers[1] - 1.0).abs() < 0.01, "{what}{}", show());
    }
    assert!(text.contains("links: link1\n"), "{}", show());
    assert!(text.contains("the quota is nearly used up") || text.contains("the quota is used up"), "{}", show());
}

/// A limit that counts now is shown and in force. A reload without it lifts it.
#[test]
fn a_limit_by_the_time_of_day_is_in_force() {
    let commands = r#"
        printf '[[link]]\nname = "link1"\nmax-rate-up-at = ["00:00-24:00 2 Mbit/s", "00:00-24:00 7 Mbit/s"]\n' >>home.toml
        up hub; up home; logged home "session established"; settled; logged home "link link1: at most 2"
        limit() { run home status --json | python3 -c 'import json,sys; print(*(l.get("max_rate_up_bps") for l in json.load(sys.stdin)["links"]))'; }
        echo "limits: $(limit)"; run home status | grep "link1 .*2.0 Mbit/s"
        ip -n home link set link2 down; sleep 0.3; a=$(carried link1)
        ip netns exec home timeout 3 ping -q -f -s 1400 10.9.0.2 >/dev/null; b=$(carried link1)
        echo "slow: $((b - a < 2 * 3 * 2000000 / 8 * 3 / 2))"
        sed -i '/max-rate-up-at/d' home.toml; run home reload; echo "limits: $(limit)""#;
    let Some((_, out)) = on_two_nodes(&[SHELL, commands].concat()) else { return };
    let text = stdout(&out);
    for line in ["limits: 2000000 None", "slow: 1", "limits: None"] {
        assert!(text.lines().any(|of| of == line), "no {line}\n{text}\n{}", stderr(&out));
    }
}
