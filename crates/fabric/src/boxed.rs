//! A boxed fabric is a fabric, so that what wraps one can wrap any.

use std::sync::Arc;
use std::time::Duration;

use crate::{
    Bell, Fabric, Head, Limits, Operation, Peer, Posted, Region, Result, Rights, Sink, SyncKey,
    Token, Uses,
};

impl<F: Fabric + ?Sized> Fabric for Box<F> {
    fn me(&self) -> Peer {
        (**self).me()
    }

    fn peers(&self) -> u32 {
        (**self).peers()
    }

    fn limits(&self) -> Limits {
        (**self).limits()
    }

    fn bell(&self) -> Arc<dyn Bell> {
        (**self).bell()
    }

    fn now(&self) -> Duration {
        (**self).now()
    }

    fn route(&self, peer: Peer) -> &'static str {
        (**self).route(peer)
    }

    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        (**self).try_send(to, head, data)
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        (**self).poll(sink, budget)
    }

    fn grant(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        (**self).grant(region, to, rights, uses)
    }

    fn offer(&mut self, to: Peer, token: Token) {
        (**self).offer(to, token);
    }

    fn revoke(&mut self, token: Token) -> bool {
        (**self).revoke(token)
    }

    fn get(
        &mut self,
        from: Peer,
        token: Token,
        offset: u64,
        into: Region,
        operation: Operation,
    ) -> Result<Posted> {
        (**self).get(from, token, offset, into, operation)
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        (**self).put(to, token, offset, source, operation)
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        (**self).signal(to, key)
    }

    fn signals(&self, from: Peer, key: SyncKey) -> u64 {
        (**self).signals(from, key)
    }

    fn take_signals(&mut self, from: Peer, key: SyncKey, count: u64) -> bool {
        (**self).take_signals(from, key, count)
    }

    fn forget(&mut self, key: SyncKey) {
        (**self).forget(key);
    }

    fn is_flushed(&mut self) -> bool {
        (**self).is_flushed()
    }

    fn farewell(&mut self) {
        (**self).farewell();
    }
}
