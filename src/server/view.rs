//! What the admin port and the control socket show, asked of the cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::config::{Backend, Config};
use crate::control::{ConnectionRow, ControlSource, ExportRow, Status};
use crate::engine::Handle;
use crate::observe::{CoreSnapshot, SnapshotSource};
use crate::transport::tcp::{ConnectionView, Connections};

/// How long a person waits for a core that is stuck.
const LONGEST: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(super) struct View {
    handle: Handle,
    config: Arc<Config>,
    stop: crossbeam_channel::Sender<&'static str>,
    drained: Arc<AtomicBool>,
    started: Instant,
}

impl View {
    pub(super) fn new(
        handle: Handle,
        config: Arc<Config>,
        stop: crossbeam_channel::Sender<&'static str>,
        drained: Arc<AtomicBool>,
    ) -> View {
        View { handle, config, stop, drained, started: Instant::now() }
    }
}

impl SnapshotSource for View {
    fn snapshot_all(&self) -> Vec<CoreSnapshot> {
        self.handle.snapshot_all()
    }

    fn core_count(&self) -> usize {
        self.handle.core_count()
    }

    fn cores_answering(&self) -> usize {
        self.handle.cores_answering()
    }

    fn draining(&self) -> bool {
        self.drained.load(Ordering::Relaxed)
    }
}

impl ControlSource for View {
    fn status(&self) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: self.started.elapsed().as_millis() as u64,
            cores: self.handle.cores() as u64,
            draining: self.draining(),
        }
    }

    fn snapshots(&self) -> Vec<CoreSnapshot> {
        self.snapshot_all()
    }

    fn connections(&self) -> Vec<ConnectionRow> {
        let views = self.handle.ask_all(LONGEST, || async {
            Connections::current().map(|connections| connections.view()).unwrap_or_default()
        });
        views.into_iter().flatten().map(row).collect()
    }

    fn exports(&self) -> Vec<ExportRow> {
        self.config
            .exports
            .iter()
            .map(|export| ExportRow {
                name: export.name.clone(),
                path: export.directory().map(|path| path.display().to_string()).unwrap_or_default(),
                store: match &export.backend {
                    Backend::Posix { .. } => "posix".to_owned(),
                    Backend::Null => "null".to_owned(),
                },
                access: export.rules.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
                ..ExportRow::default()
            })
            .collect()
    }

    fn drain(&self) -> Result<String, String> {
        match self.stop.try_send("control socket") {
            Ok(()) => {
                Ok("draining: no new connections; the gateway ends when its calls are answered".to_owned())
            }
            Err(_) => Err("the gateway is ending already".to_owned()),
        }
    }
}

fn row(view: ConnectionView) -> ConnectionRow {
    ConnectionRow {
        id: view.id,
        peer: view.peer.to_string(),
        local: view.local.to_string(),
        core: view.core.0,
        protocol: "rpc".to_owned(),
        transport: "tcp".to_owned(),
        age_ms: view.age.as_millis() as u64,
        idle_ms: view.idle.as_millis() as u64,
        requests: view.calls,
        bytes_in: view.received_bytes,
        bytes_out: view.sent_bytes,
        in_flight: view.in_flight as u64,
        paused: view.paused,
        ..ConnectionRow::default()
    }
}
