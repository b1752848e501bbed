//! Requests to the job, and their answers as faults.

use std::sync::mpsc;

use weft_launch::bootstrap::{JobAnswer, JobRequest, Refusal};

use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::state;

/// Asks the job, and waits for the answer; a refusal is a fault.
pub(super) fn ask(request: JobRequest) -> Checked<JobAnswer> {
    let runtime =
        state::runtime().ok_or_else(|| Fault::new(k::MPI_ERR_OTHER, "MPI is not initialised"))?;
    let answer = match request {
        // The launcher may wait until this process, too, has finished with other processes that have ended.
        JobRequest::Spawn(_) => ask_beside(runtime, request)?,
        request => runtime
            .launcher
            .ask_job(&request)
            .map_err(|error| error.to_string()),
    };
    match answer {
        Err(lost) => Err(Fault::new(k::MPI_ERR_OTHER, lost)),
        Ok(JobAnswer::Refused { refusal, reason }) => Err(Fault::new(class_of(refusal), reason)),
        Ok(answer) => Ok(answer),
    }
}

/// Asks in a separate thread, while this one makes progress.
fn ask_beside(
    runtime: &'static state::Runtime,
    request: JobRequest,
) -> Checked<Result<JobAnswer, String>> {
    let (done, answer) = mpsc::channel();
    let asking = std::thread::Builder::new().name("weft-spawn".into());
    let asked = asking.spawn(move || {
        let answer = runtime.launcher.ask_job(&request);
        let _ = done.send(answer.map_err(|error| error.to_string()));
        runtime.process.notify();
    });
    if let Err(error) = asked {
        return Err(Fault::new(
            k::MPI_ERR_SPAWN,
            format!(
                "no thread can be started to ask the launcher: {error}; raise the limit of processes (ulimit -u)"
            ),
        ));
    }
    let mut found = None;
    runtime.process.wait_until(|| {
        found = answer.try_recv().ok();
        found.is_some()
    });
    Ok(found.expect("waited for"))
}

const fn class_of(refusal: Refusal) -> std::ffi::c_int {
    match refusal {
        Refusal::Spawn => k::MPI_ERR_SPAWN,
        Refusal::Port => k::MPI_ERR_PORT,
        Refusal::Name => k::MPI_ERR_NAME,
        Refusal::Service => k::MPI_ERR_SERVICE,
        Refusal::Other => k::MPI_ERR_OTHER,
    }
}

/// The launcher has answered something else.
pub(super) fn unexpected(answer: JobAnswer) -> Fault {
    Fault::new(
        k::MPI_ERR_INTERN,
        format!("the launcher has answered {answer:?}; use mpiexec and the library of one release"),
    )
}
