//! Slurm: the environment has the nodes of a job and the tasks on each.

use super::{Reason, SchedulerAllocation, SchedulerEnvironment, command_or_ssh, host, node_list};

pub const WHO: &str = "Slurm";

/// The name of the node on which we are, within a job.
pub const THIS_NODE: &str = "SLURMD_NODENAME";

/// One task on a node that starts an agent:
/// `-u`, as `srun` otherwise waits for ends of lines; `--overlap`, as the ranks share what their own job has with the batch
/// step; `--cpu-bind=none`, as what is bound is bound with all ranks of the node; no MPI, as the ranks are ours.
/// `--nodelist` is the last one: the name of the node follows.
const COMMAND: [&str; 8] = [
    "srun",
    "-u",
    "--overlap",
    "--mpi=none",
    "--cpu-bind=none",
    "--nodes=1",
    "--ntasks=1",
    "--nodelist",
];

pub fn look(around: &dyn SchedulerEnvironment) -> Option<Result<SchedulerAllocation, Reason>> {
    around.variable("SLURM_JOB_ID")?;
    let nodes = ["SLURM_JOB_NODELIST", "SLURM_NODELIST"]
        .into_iter()
        .find_map(|name| Some((name, around.variable(name)?)));
    // A job that was only submitted, by salloc --no-shell for example, shows itself without nodes.
    let (source, nodes) = nodes?;
    Some(found(around, source, &nodes))
}

fn found(
    around: &dyn SchedulerEnvironment,
    source: &str,
    nodes: &str,
) -> Result<SchedulerAllocation, Reason> {
    let number = |name: &str| around.variable(name)?.parse::<u32>().ok();
    // Each of the tasks of a step would start all of the job.
    if let Some(tasks @ 2..) = number("SLURM_STEP_NUM_TASKS") {
        return Err(format!(
            "this launcher is one of {tasks} tasks that srun has started, and each starts a job of its own; start it \
             once, without srun, or the program with srun --mpi=pmi2"
        ));
    }
    let nodes = node_list::names(nodes)?;
    let (more, tasks) = tasks_of(around, nodes.len());
    let hosts = nodes.iter().zip(tasks).filter(|(_, tasks)| *tasks > 0);
    let hosts: Result<Vec<_>, _> = hosts.map(|(name, tasks)| host(name, Some(tasks))).collect();
    let command = command_or_ssh(around, &COMMAND);
    SchedulerAllocation::new(WHO, format!("{source}{more}"), hosts?, command, around)
}

/// How many tasks each of so many nodes takes, and which variables say so: those that were asked for; else as many as its
/// cores are enough for; else one.
fn tasks_of(around: &dyn SchedulerEnvironment, nodes: usize) -> (&'static str, Vec<u32>) {
    let counts = |name: &str| {
        let counts = node_list::counts(&around.variable(name)?).ok()?;
        (counts.len() == nodes && counts.iter().any(|count| *count > 0)).then_some(counts)
    };
    // Within a step it is the step's, which may have fewer nodes.
    if let Some(tasks) = counts("SLURM_TASKS_PER_NODE") {
        return (", SLURM_TASKS_PER_NODE", tasks);
    }
    if let Some(cores) = counts("SLURM_JOB_CPUS_PER_NODE") {
        let each = around.variable("SLURM_CPUS_PER_TASK");
        let each = each.and_then(|each| each.parse().ok()).unwrap_or(1).max(1);
        let tasks = cores.iter().map(|cores| (cores / each).max(1)).collect();
        return (", SLURM_JOB_CPUS_PER_NODE", tasks);
    }
    ("", vec![1; nodes])
}
