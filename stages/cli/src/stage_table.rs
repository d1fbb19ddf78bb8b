//! The stages as an operator's commands know them: one row each.

/// One stage.
pub struct StageRow {
    /// The name of its program.
    pub program: &'static str,
    /// Its key in status.json.
    pub key: &'static str,
    /// Its unit.
    pub unit: &'static str,
}

const fn row(at: usize, program: &'static str, unit: &'static str) -> StageRow {
    StageRow { program, key: state::STAGES[at], unit }
}

/// The stages in boot order.
pub static STAGES: [StageRow; 4] = [
    row(0, "cloud-init-local", "cloud-init-local.service"),
    row(1, "cloud-init-network", "cloud-init-network.service"),
    row(2, "cloud-init-config", "cloud-config.service"),
    row(3, "cloud-init-final", "cloud-final.service"),
];
