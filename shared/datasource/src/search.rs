//! Asks the datasources of the list, in its order, until one says yes.

use state::Instance;
use system::{debug, error, info, warning};

use crate::{Search, Stage, datasource};

/// How a search ended.
#[derive(Debug, Default)]
pub struct Outcome {
    pub found: Option<Instance>,
    /// Datasources that can only be looked for once there is a network.
    pub later: Vec<&'static str>,
    /// What went wrong while looking: with nothing found, "no" is then not certain.
    pub errors: Vec<String>,
}

/// Searches the datasources named in `list`. An error of one counts as its "no", and is kept.
pub fn search(with: &Search<'_>, list: &[String]) -> Outcome {
    let sys = with.sys;
    let mut outcome = Outcome::default();
    let stage = match with.stage {
        Stage::Local => "init-local",
        Stage::Network => "init-network",
    };
    for name in list {
        let Some(row) = datasource(name) else {
            // Names of clouds that later releases add must not stop an older one.
            error!(sys, "no datasource named {name}; skipped");
            continue;
        };
        if !row.stages.contains(&with.stage) {
            if with.stage == Stage::Local {
                outcome.later.push(row.name);
            }
            continue;
        }
        if with.stage == Stage::Local && row.stages.contains(&Stage::Network) {
            outcome.later.push(row.name);
        }
        debug!(
            sys,
            "start: {stage}/search-{0}: searching for {1} data from DataSource{0}",
            row.name,
            if with.stage == Stage::Local { "local" } else { "network" }
        );
        let found = (row.find)(with);
        match found {
            Ok(Some(instance)) => {
                debug!(
                    sys,
                    "finish: {stage}/search-{0}: SUCCESS: found {1} data from DataSource{0}",
                    row.name,
                    if with.stage == Stage::Local { "local" } else { "network" }
                );
                info!(sys, "Loaded datasource {}", instance.description);
                outcome.found = Some(instance);
                return outcome;
            }
            Ok(None) => {
                debug!(
                    sys,
                    "finish: {stage}/search-{0}: SUCCESS: no {1} data found from DataSource{0}",
                    row.name,
                    if with.stage == Stage::Local { "local" } else { "network" }
                );
            }
            Err(e) => {
                warning!(sys, "searching DataSource{}: {e}", row.name);
                outcome.errors.push(format!("{}: {e}", row.name));
            }
        }
    }
    outcome
}
