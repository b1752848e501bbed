//! Pool of resident jobs: launched at first use, kept until they are ended or misbehave.

use super::Job;
use crate::experiment::JobKey;
use crate::implementation::Implementation;
use anyhow::{Context, Result, bail};
use std::collections::HashMap;

/// The resident jobs of a run, at most one for each key.
pub struct JobPool<'a> {
    implementations: &'a [Implementation],
    cores: usize,
    jobs: HashMap<JobKey, Job>,
    failures: HashMap<JobKey, (u32, String)>,
    complaints: Vec<String>,
}

impl<'a> JobPool<'a> {
    /// A pool without any job yet. `implementations` are those named by the keys, `cores` the processors that
    /// the run may use.
    pub fn new(implementations: &'a [Implementation], cores: usize) -> Self {
        Self {
            implementations,
            cores,
            jobs: HashMap::new(),
            failures: HashMap::new(),
            complaints: Vec::new(),
        }
    }

    /// An implementation by its index.
    pub fn implementation(&self, index: usize) -> &'a Implementation {
        &self.implementations[index]
    }

    /// Processors that the run may use.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// The job of this key, launched if it does not run.
    ///
    /// # Errors
    /// As [`Job::launch`]; after two failed launches the key is refused, with the reason of the second.
    pub fn job(&mut self, key: JobKey) -> Result<&mut Job> {
        if !self.jobs.contains_key(&key) {
            if let Some((2.., why)) = self.failures.get(&key) {
                bail!("{why} (tried twice)");
            }
            match self.launch(key) {
                Ok(job) => self.jobs.insert(key, job),
                Err(error) => {
                    let failure = self.failures.entry(key).or_default();
                    *failure = (failure.0 + 1, format!("{error:#}"));
                    return Err(error);
                }
            };
        }
        self.jobs
            .get_mut(&key)
            .context("a job that was just launched")
    }

    /// A job of this key for the caller alone, not resident.
    ///
    /// # Errors
    /// As [`Job::launch`].
    pub fn launch(&self, key: JobKey) -> Result<Job> {
        let implementation = self.implementation(key.implementation);
        Job::launch(implementation, key.ranks, key.multiple, self.cores)
    }

    /// Ends one job in good order, if it runs.
    ///
    /// # Errors
    /// As [`Job::end`].
    pub fn end(&mut self, key: JobKey) -> Result<()> {
        self.jobs.remove(&key).map_or(Ok(()), Job::end)
    }

    /// Kills a job that misbehaved.
    pub fn discard(&mut self, key: JobKey) {
        self.jobs.remove(&key);
    }

    /// Ends all jobs in good order; failures become complaints.
    pub fn retire(&mut self) {
        let mut jobs: Vec<_> = self.jobs.drain().collect();
        jobs.sort_by_key(|(key, _)| *key);
        for (key, job) in jobs {
            if let Err(error) = job.end() {
                let name = &self.implementation(key.implementation).name;
                let complaint = format!("{name} with {} ranks: {error:#}", key.ranks);
                self.complaints.push(complaint);
            }
        }
    }

    /// Keeps a complaint for the notes, once.
    pub fn complain(&mut self, complaint: String) {
        if !self.complaints.contains(&complaint) {
            self.complaints.push(complaint);
        }
    }

    /// Hands over what went wrong while jobs ended, and other complaints.
    pub fn take_complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.complaints)
    }
}
