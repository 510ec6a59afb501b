//! How far a workflow is, as the tree that its card shows: phases, and in each what runs and what failed.
//!
//! Written by the run, pure. Bounded: names of agents that are done are kept only while there are few of them.

use std::fmt::Write;

/// Most agents of a phase that are named.
const MAX_NAMED: usize = 12;
/// Phases that are shown; of more, the last.
const MAX_PHASES: usize = 20;
/// Notes that are shown, the last ones.
const MAX_NOTES: usize = 5;
/// Longest text of a line, in characters.
const MAX_LINE: usize = 200;

/// How far an agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Waiting,
    Running,
    Done,
    Failed,
    Stopped,
}

/// The tree.
#[derive(Debug, Default)]
pub(super) struct Progress {
    phases: Vec<Phase>,
    /// Place of the phase that agents join by default.
    current: Option<usize>,
    agents: Vec<Agent>,
    notes: Vec<String>,
}

#[derive(Debug)]
struct Phase {
    /// `None` for agents outside of any.
    title: Option<String>,
}

#[derive(Debug)]
struct Agent {
    phase: usize,
    label: String,
    stage: Stage,
}

impl Progress {
    /// From here on agents belong to this phase.
    pub fn enter(&mut self, title: &str) {
        self.current = Some(self.place(Some(title)));
    }

    /// Title of the phase that agents join by default.
    pub fn current(&self) -> Option<&str> {
        self.current.and_then(|at| self.phases.get(at)).and_then(|phase| phase.title.as_deref())
    }

    /// A line of the script.
    pub fn note(&mut self, text: &str) {
        self.notes.push(line(text));
        let n_old = self.notes.len().saturating_sub(MAX_NOTES);
        self.notes.drain(..n_old);
    }

    /// A further agent, which waits.
    pub fn add(&mut self, phase: Option<&str>, label: &str) {
        let phase = self.place(phase);
        self.agents.push(Agent { phase, label: line(label), stage: Stage::Waiting });
    }

    /// The agent with this number, from 1, is so far.
    pub fn set(&mut self, seq: u64, stage: Stage) {
        let idx = usize::try_from(seq).ok().and_then(|seq| seq.checked_sub(1));
        if let Some(agent) = idx.and_then(|idx| self.agents.get_mut(idx)) {
            agent.stage = stage;
        }
    }

    fn place(&mut self, title: Option<&str>) -> usize {
        let title = title.map(line);
        match self.phases.iter().position(|phase| phase.title == title) {
            Some(at) => at,
            None => {
                self.phases.push(Phase { title });
                self.phases.len() - 1
            }
        }
    }

    /// The tree as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let first = self.phases.len().saturating_sub(MAX_PHASES);
        if first > 0 {
            let _ = writeln!(text, "- … {first} earlier phases");
        }
        for (at, phase) in self.phases.iter().enumerate().skip(first) {
            let agents: Vec<&Agent> = self.agents.iter().filter(|agent| agent.phase == at).collect();
            let title = phase.title.as_deref().unwrap_or("Agents");
            let _ = write!(text, "- **{title}**");
            let counts = counts(&agents);
            if !counts.is_empty() {
                let _ = write!(text, ": {counts}");
            }
            text.push('\n');
            let is_small = agents.len() <= MAX_NAMED;
            let named = |agent: &&&Agent| is_small || matches!(agent.stage, Stage::Running | Stage::Failed);
            let mut n_left_out = 0;
            let mut n_named = 0;
            for agent in agents.iter().filter(named) {
                // What runs is bounded by the pool; what failed is not.
                if n_named >= MAX_NAMED && agent.stage != Stage::Running {
                    n_left_out += 1;
                    continue;
                }
                n_named += 1;
                let mark = match agent.stage {
                    Stage::Waiting => "·",
                    Stage::Running => "▸",
                    Stage::Done => "✓",
                    Stage::Failed => "✗",
                    Stage::Stopped => "–",
                };
                let _ = writeln!(text, "  - {mark} {}", agent.label);
            }
            if n_left_out > 0 {
                let _ = writeln!(text, "  - … {n_left_out} more failed");
            }
        }
        for note in &self.notes {
            let _ = write!(text, "\n> {note}\n");
        }
        text
    }
}

fn counts(agents: &[&Agent]) -> String {
    let words = [
        (Stage::Done, "done"),
        (Stage::Failed, "failed"),
        (Stage::Stopped, "stopped"),
        (Stage::Running, "running"),
        (Stage::Waiting, "waiting"),
    ];
    let parts = words.iter().filter_map(|(stage, word)| {
        let n = agents.iter().filter(|agent| agent.stage == *stage).count();
        (n > 0).then(|| format!("{n} {word}"))
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// The first line of a text, cut.
fn line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(MAX_LINE) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_phase_names_everybody() {
        let mut progress = Progress::default();
        progress.add(None, "Ask around");
        progress.enter("Scan");
        progress.add(progress.current().map(str::to_owned).as_deref(), "One\nsecond line");
        progress.add(Some("Scan"), "Two");
        progress.add(Some("Scan"), "Three");
        progress.set(1, Stage::Done);
        progress.set(2, Stage::Running);
        progress.set(3, Stage::Failed);
        progress.note("half way");
        let expected = "- **Agents**: 1 done\n  - ✓ Ask around\n\
                        - **Scan**: 1 failed, 1 running, 1 waiting\n  - ▸ One\n  - ✗ Two\n  - · Three\n\
                        \n> half way\n";
        assert_eq!(progress.markdown(), expected);
    }

    #[test]
    fn a_large_run_stays_short() {
        let mut progress = Progress::default();
        for seq in 1..=1000 {
            progress.add(Some("Many"), &format!("Agent {seq}"));
            progress.set(seq, if seq > 990 { Stage::Running } else { Stage::Failed });
            progress.note(&"x".repeat(1000));
        }
        let text = progress.markdown();
        assert!(text.starts_with("- **Many**: 990 failed, 10 running\n"), "{text}");
        assert!(text.contains("  - … 978 more failed\n") && text.contains("▸ Agent 1000"), "{text}");
        assert!(text.len() < 4096, "{}", text.len());
        for n in 0..30 {
            progress.enter(&format!("Phase {n}"));
        }
        assert!(progress.markdown().starts_with("- … 11 earlier phases\n"));
    }
}
