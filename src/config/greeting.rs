//! What a newcomer wants to see once the gateway listens: where it is, and the commands to try.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Config, Export, ExportAccess, NFS_PORT, Portmap, RunAs, Squash};

/// Addresses and commands; print it when the listeners are bound.
#[derive(Clone, Copy, Debug)]
pub struct Greeting<'a>(pub &'a Config);

impl Greeting<'_> {
    /// The address that the commands name: the first one, or loopback where all addresses are bound.
    fn server(&self) -> SocketAddr {
        let mut address =
            self.0.listen.nfs.first().copied().unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, NFS_PORT)));
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        address
    }

    /// The command that mounts an export on Linux.
    pub fn mount_command(&self, export: &Export) -> String {
        let server = self.server();
        let (ip, port) = (ip_text(server.ip()), server.port());
        let mut options = "vers=3,proto=tcp".to_owned();
        if self.0.listen.portmap == Portmap::Off {
            // Without a port mapper the client finds neither MOUNT nor the lock manager.
            options += &format!(",port={port},mountport={port},mountproto=tcp,nolock");
        } else if port != NFS_PORT {
            options += &format!(",port={port},mountport={port},mountproto=tcp");
        } else {
            options += ",mountproto=tcp";
        }
        format!("sudo mount -t nfs -o {options} {ip}:{} /mnt", shell_word(&export.name))
    }

    /// The command that lists an export with libnfs' utilities, without root.
    pub fn libnfs_command(&self, export: &Export) -> String {
        let server = self.server();
        let (ip, port) = (ip_text(server.ip()), server.port());
        format!(
            "nfs-ls {}",
            shell_word(&format!("nfs://{ip}{}?nfsport={port}&mountport={port}", export.name))
        )
    }
}

impl fmt::Display for Greeting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.0;
        let addresses: Vec<String> = config.listen.nfs.iter().map(ToString::to_string).collect();
        writeln!(f, "serving NFSv3 on {}", addresses.join(", "))?;
        for export in &config.exports {
            let read_only = export.rules.iter().all(|rule| rule.access == ExportAccess::ReadOnly);
            let note = if read_only { " (read-only)" } else { "" };
            match export.directory() {
                Some(directory) => writeln!(f, "\n  {}  from  {}{note}", export.name, directory.display())?,
                None => writeln!(f, "\n  {}  from the null store{note}", export.name)?,
            }
            writeln!(f, "    mount it (Linux):      {}", self.mount_command(export))?;
            writeln!(f, "    or look (no root):     {}", self.libnfs_command(export))?;
        }
        writeln!(f)?;
        match config.identity.run_as {
            RunAs::Process => writeln!(f, "  everything is done as the user that runs the gateway")?,
            RunAs::Caller
                if config.exports.iter().flat_map(|e| &e.rules).any(|rule| rule.squash == Squash::Root) =>
            {
                writeln!(f, "  root of a client has no rights here (root_squash)")?;
            }
            RunAs::Caller => {}
        }
        if config.listen.portmap == Portmap::Off {
            writeln!(
                f,
                "  no port mapper: clients name the ports, and their file locks stay local (nolock)"
            )?;
        }
        if let Some(metrics) = config.listen.metrics {
            writeln!(f, "  metrics:   curl http://{metrics}/metrics")?;
        }
        write!(f, "  look in:   headgate show cores --socket {}", config.listen.control.display())
    }
}

/// An address as URLs and mount(8) want it.
fn ip_text(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// The text as one word of a POSIX shell: quoted only where it must be.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(shell_word("/data"), "/data");
        assert_eq!(shell_word("/my data"), "'/my data'");
        assert_eq!(shell_word("/it's"), r"'/it'\''s'");
        assert_eq!(
            shell_word("nfs://[::1]/d?nfsport=1&mountport=1"),
            "'nfs://[::1]/d?nfsport=1&mountport=1'"
        );
    }
}
