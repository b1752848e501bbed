//! Across engines: waiting for and testing lists whose requests are in several engines of the rank.
//!
//! A call takes the engine of the first request, since usually all are there. If one of them is not live there, the call
//! comes here, where it may turn out that it is live nowhere. Then the list is handled engine by engine, with one lock at
//! a time. To wait for all is to wait for one after the other: the order in which their ends are seen does not matter,
//! and a thread that waits in one engine [looks after](crate::engine::Engines) the others. A call that waits for any
//! leaves a [`Called`] with each request, and waits in one of the engines until it is called.

use std::sync::Arc;
use std::task::{Wake, Waker};

use weft_atomic::{AtomicBool, Ordering};
use weft_fiber::Waiter;

use crate::engine::{Ended, Guard, RequestId, RequestList, Shared, WaitFor};
use crate::error::{Error, ErrorClass, Result};
use crate::process::Process;

/// Whether one of the requests that a call waits for has ended, or is held up.
struct Called {
    was: AtomicBool,
    /// Where the call waits.
    engine: Arc<Shared>,
}

impl Wake for Called {
    /// Called without any engine.
    fn wake(self: Arc<Self>) {
        // Released by the lock.
        self.was.store(true, Ordering::Relaxed);
        self.engine.lock().notify();
        // It may be the one that sleeps on the fabric.
        self.engine.bell().ring();
    }
}

impl Process {
    /// Exclusive use of the engine of the first of these requests; those of others are stale there. Requests that are done are in
    /// any.
    #[inline]
    pub(super) fn lock_of_first(&self, ids: impl Iterator<Item = RequestId>) -> Guard<'_> {
        let mut ids = ids.filter(|id| !id.is_done());
        match ids.next() {
            Some(first) => self.lock_of(first),
            None => self.lock(),
        }
    }

    /// [`start_all`](Self::start_all).
    #[cold]
    pub(super) fn start_all_across_engines(
        &self,
        ids: impl Iterator<Item = RequestId> + Clone,
    ) -> Result<()> {
        for id in ids.clone() {
            self.lock_of(id).check_startable(id)?;
        }
        ids.map(|id| self.lock_of(id).start(id))
            .fold(Ok(()), Result::and)
    }

    /// [`wait_all`](Self::wait_all).
    #[cold]
    pub(super) fn wait_all_across_engines(&self, list: &mut impl RequestList) -> Result<()> {
        let ids: Vec<Option<RequestId>> =
            (0..list.len()).map(|place| list.request(place)).collect();
        self.check_all(&ids)?;
        for id in ids.iter().flatten().filter(|id| !id.is_done()) {
            if let Some(error) = self.lock_of(*id).until_over_or_held_up(*id) {
                return Err(error);
            }
        }
        self.take_all_across_engines(list, &ids)
    }

    /// Takes the outcomes of a list whose requests have all ended.
    fn take_all_across_engines(
        &self,
        list: &mut impl RequestList,
        ids: &[Option<RequestId>],
    ) -> Result<()> {
        let error = |id: &RequestId| {
            self.lock_of(*id)
                .error_of(*id)
                .map(|error| error.text().to_owned())
        };
        let errors: Vec<String> = ids.iter().flatten().filter_map(error).collect();
        let failed = !errors.is_empty();
        for (place, id) in ids.iter().enumerate() {
            let status = id.map(|id| self.lock_of(id).take_status(id));
            list.ended(place, status.as_ref(), failed);
        }
        match errors.first() {
            None => Ok(()),
            Some(first) => Err(Error::new(
                ErrorClass::InStatus,
                format!(
                    "{} of {} requests failed, the first because {first}; see the error in each status",
                    errors.len(),
                    ids.len()
                ),
            )),
        }
    }

    /// [`test_all`](Self::test_all).
    #[cold]
    pub(super) fn test_all_across_engines(&self, list: &mut impl RequestList) -> Result<bool> {
        let ids: Vec<Option<RequestId>> =
            (0..list.len()).map(|place| list.request(place)).collect();
        let mut over = true;
        for id in ids.iter().flatten() {
            let mut engine = self.lock_of(*id);
            if !engine.has_ended(*id)? {
                engine.ask();
            }
            if !engine.is_over(*id) {
                over = false;
                if let Some(error) = engine.held_up(*id) {
                    return Err(error);
                }
            }
        }
        if over {
            self.take_all_across_engines(list, &ids).map(|()| true)
        } else {
            Ok(false)
        }
    }

    /// The error of one that is live in no engine.
    fn check_all(&self, ids: &[Option<RequestId>]) -> Result<()> {
        let mut ids = ids.iter().flatten();
        ids.try_for_each(|id| self.lock_of(*id).check_live(*id))
    }

    /// Of a list, those in each engine that has some, at their places, with that engine.
    fn by_engine<'a>(
        &'a self,
        ids: &[Option<RequestId>],
    ) -> Vec<(&'a Arc<Shared>, Vec<Option<RequestId>>)> {
        let engines = self.engines().all().map(|engine| {
            let of = |id: &Option<RequestId>| id.filter(|id| id.engine() == engine.channel());
            (engine, ids.iter().map(of).collect::<Vec<_>>())
        });
        engines
            .filter(|(_, own)| own.iter().any(Option::is_some))
            .collect()
    }

    /// What has ended of a list; `None` if none is under way. `Some` of nothing: none has ended.
    fn look_across_engines(&self, ids: &[Option<RequestId>], most: usize) -> Result<Option<Ended>> {
        let (mut ended, mut pending) = (Ended::new(), 0);
        self.check_all(ids)?;
        let engines = self.by_engine(ids);
        for (engine, own) in &engines {
            let mut engine = engine.lock();
            pending += engine.pending(own)?.len();
            engine.ask();
        }
        if pending == 0 {
            return Ok(None);
        }
        for (engine, own) in &engines {
            let left = most - ended.len();
            if left > 0 {
                ended.append(&mut engine.lock().take_ended(own, left));
            }
        }
        if ended.is_empty() {
            for (engine, own) in &engines {
                engine.lock().any_held_up(own)?;
            }
        }
        ended.sort_by_key(|(place, _)| *place);
        Ok(Some(ended))
    }

    /// [`test_any`](Self::test_any) and [`test_some`](Self::test_some).
    #[cold]
    pub(super) fn test_across_engines(
        &self,
        ids: &[Option<RequestId>],
        most: usize,
    ) -> Result<Option<Ended>> {
        self.look_across_engines(ids, most)
    }

    /// [`wait_any`](Self::wait_any) and [`wait_some`](Self::wait_some).
    #[cold]
    pub(super) fn wait_across_engines(
        &self,
        ids: &[Option<RequestId>],
        most: usize,
    ) -> Result<Option<Ended>> {
        self.check_all(ids)?;
        let engines = self.by_engine(ids);
        let Some((home, _)) = engines.first() else {
            return Ok(None);
        };
        let called = Arc::new(Called {
            was: AtomicBool::new(false),
            engine: Arc::clone(home),
        });
        let forget = || {
            for (engine, own) in &engines {
                let mut engine = engine.lock();
                own.iter()
                    .flatten()
                    .for_each(|id| engine.forget_waiter(*id));
            }
        };
        loop {
            // Left first: what ends after the look calls.
            let waker = Waker::from(Arc::clone(&called));
            for (engine, own) in &engines {
                let mut engine = engine.lock();
                for id in own.iter().flatten() {
                    engine.await_end(*id, Waiter::Task(waker.clone()));
                }
            }
            match self.look_across_engines(ids, most) {
                Ok(Some(ended)) if ended.is_empty() => {}
                other => {
                    forget();
                    return other;
                }
            }
            home.lock().wait_for(WaitFor::Apart(ids), |_| {
                called.was.swap(false, Ordering::Relaxed).then_some(())
            });
        }
    }
}
