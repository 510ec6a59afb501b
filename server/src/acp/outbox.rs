//! What goes to the client, in one order: session events, live updates, responses.
//!
//! Everything that must keep its place goes through here: an event is presented and sent before the response that
//! follows it, and a request to the client waits for what was queued before it ([`Outbox::flushed`]). One task presents
//! and sends. The SDK's queue has no bound, so at most [`MAX_IN_FLIGHT`] updates are handed to it before they are
//! really written; what waits here meanwhile is coalesced (text by message, terminal output by call), and whoever
//! produces it waits in [`Outbox::ready`] once [`MAX_QUEUED_BYTES`] are queued.

use super::transport::WriteGauge;
use super::view::SessionView;
use agent_client_protocol::v1::schema::SessionUpdate;
use protocol::event::Record;
use protocol::live::LiveUpdate;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};

/// Updates handed to the SDK and not yet written.
const MAX_IN_FLIGHT: u64 = 32;
/// Bytes of text that may wait here before producers do.
const MAX_QUEUED_BYTES: usize = 1 << 20;
/// How far back an update looks for one it can be joined with.
const COALESCE_WINDOW: usize = 16;

/// Sends updates to the client; the view gives the wire values.
pub type SendUpdate = Arc<dyn Fn(serde_json::Value) + Send + Sync>;

/// One entry of the queue.
enum Item {
    /// A logged event of a session.
    Event(Arc<SessionView>, Record),
    /// Something to show now.
    Live(Arc<SessionView>, LiveUpdate),
    /// A wire value that is ready.
    Update(Arc<SessionView>, SessionUpdate),
    /// Everything that was logged in a session so far, told again.
    Replay(Arc<SessionView>, Vec<Record>),
    /// What counts now in a session.
    State(Arc<SessionView>),
    /// Something to do at this place of the order: answer a request.
    Run(Box<dyn FnOnce() + Send>),
}

/// The queue; cheap to clone.
#[derive(Clone)]
pub struct Outbox {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Something was queued.
    filled: Notify,
    /// Something was taken.
    drained: Notify,
    gauge: Arc<WriteGauge>,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    n_bytes: usize,
    closed: bool,
}

impl Outbox {
    /// An empty queue whose updates are counted by `gauge` when they are written.
    pub fn new(gauge: Arc<WriteGauge>) -> Self {
        Self {
            shared: Arc::new(Shared {
                queue: Mutex::default(),
                filled: Notify::new(),
                drained: Notify::new(),
                gauge,
            }),
        }
    }

    /// Queues a logged event.
    pub fn event(&self, view: &Arc<SessionView>, record: Record) {
        self.push(Item::Event(view.clone(), record));
    }

    /// Queues a live update, joined with one that waits already where both are the same stream.
    pub fn live(&self, view: &Arc<SessionView>, update: LiveUpdate) {
        self.push(Item::Live(view.clone(), update));
    }

    /// Queues an update that comes from no event: commands, config options.
    pub fn update(&self, view: &Arc<SessionView>, update: SessionUpdate) {
        self.push(Item::Update(view.clone(), update));
    }

    /// Queues a session's whole log, to be told again. Events that follow must be queued after it.
    pub fn replay(&self, view: &Arc<SessionView>, records: Vec<Record>) {
        self.push(Item::Replay(view.clone(), records));
    }

    /// Queues what counts now in a session: title, plan, usage.
    pub fn state(&self, view: &Arc<SessionView>) {
        self.push(Item::State(view.clone()));
    }

    /// Does something once everything queued before it was handed over.
    pub fn run(&self, act: impl FnOnce() + Send + 'static) {
        self.push(Item::Run(Box::new(act)));
    }

    /// Waits until everything queued so far was handed to the SDK, so that a request sent next comes after it.
    pub async fn flushed(&self) {
        let (reached, wait) = oneshot::channel();
        self.run(move || {
            let _ = reached.send(());
        });
        // An error means that the connection is gone; the request that follows will say so.
        let _ = wait.await;
    }

    /// Waits while more is queued than the client reads.
    pub async fn ready(&self) {
        loop {
            let drained = self.shared.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            {
                let queue = self.lock();
                if queue.closed || queue.n_bytes <= MAX_QUEUED_BYTES {
                    return;
                }
            }
            drained.await;
        }
    }

    /// Stops taking anything: the connection is gone.
    pub fn close(&self) {
        let dropped = {
            let mut queue = self.lock();
            queue.closed = true;
            queue.n_bytes = 0;
            std::mem::take(&mut queue.items)
        };
        // Outside the lock: dropping an item may run code of its own.
        drop(dropped);
        self.shared.filled.notify_waiters();
        self.shared.drained.notify_waiters();
    }

    /// Presents and sends what is queued, in order, until the queue is closed.
    pub async fn deliver(&self, send: SendUpdate) {
        let mut n_sent = self.shared.gauge.updates_written();
        while let Some(item) = self.next().await {
            match item {
                Item::Run(act) => act(),
                Item::Update(view, update) => {
                    if let Some(update) = view.wire(update) {
                        self.hand_over(&send, update, &mut n_sent).await;
                    }
                }
                Item::Replay(view, records) => {
                    view.begin_replay().await;
                    for record in records {
                        for update in view.present_replayed(&record).await {
                            self.hand_over(&send, update, &mut n_sent).await;
                        }
                    }
                    for update in view.end_replay().await {
                        self.hand_over(&send, update, &mut n_sent).await;
                    }
                }
                Item::State(view) => {
                    for update in view.present_state().await {
                        self.hand_over(&send, update, &mut n_sent).await;
                    }
                }
                Item::Event(view, record) => {
                    for update in view.present_event(&record).await {
                        self.hand_over(&send, update, &mut n_sent).await;
                    }
                }
                Item::Live(view, update) => {
                    for update in view.present_live(&update).await {
                        self.hand_over(&send, update, &mut n_sent).await;
                    }
                }
            }
        }
    }

    async fn hand_over(&self, send: &SendUpdate, update: serde_json::Value, n_sent: &mut u64) {
        loop {
            let progressed = self.shared.gauge.progressed();
            tokio::pin!(progressed);
            progressed.as_mut().enable();
            let written = self.shared.gauge.updates_written();
            if n_sent.saturating_sub(written) < MAX_IN_FLIGHT || self.lock().closed {
                break;
            }
            progressed.await;
        }
        *n_sent += 1;
        send(update);
    }

    async fn next(&self) -> Option<Item> {
        loop {
            let filled = self.shared.filled.notified();
            tokio::pin!(filled);
            filled.as_mut().enable();
            {
                let mut queue = self.lock();
                if queue.closed {
                    return None;
                }
                if let Some(item) = queue.items.pop_front() {
                    queue.n_bytes = queue.n_bytes.saturating_sub(weight(&item));
                    drop(queue);
                    self.shared.drained.notify_waiters();
                    return Some(item);
                }
            }
            filled.await;
        }
    }

    fn push(&self, item: Item) {
        {
            let mut queue = self.lock();
            if queue.closed {
                return;
            }
            queue.n_bytes += weight(&item);
            if let Some(item) = join(&mut queue.items, item) {
                queue.items.push_back(item);
            }
        }
        self.shared.filled.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of stream text an item holds; whatever else it is costs little.
fn weight(item: &Item) -> usize {
    match item {
        Item::Live(
            _,
            LiveUpdate::Text { delta, .. }
            | LiveUpdate::Reasoning { delta, .. }
            | LiveUpdate::TerminalOutput { delta, .. },
        ) => delta.len(),
        _ => 0,
    }
}

/// Joins an item with the tail of the queue when both belong to one stream; gives it back otherwise.
fn join(items: &mut VecDeque<Item>, item: Item) -> Option<Item> {
    let Item::Live(view, update) = &item else { return Some(item) };
    for earlier in items.iter_mut().rev().take(COALESCE_WINDOW) {
        let Item::Live(earlier_view, earlier_update) = earlier else { return Some(item) };
        if !Arc::ptr_eq(earlier_view, view) {
            // Another session's update may be passed: order counts only within a session.
            continue;
        }
        return match (earlier_update, update) {
            (LiveUpdate::Text { message_id, delta }, LiveUpdate::Text { message_id: same, delta: more })
            | (
                LiveUpdate::Reasoning { message_id, delta },
                LiveUpdate::Reasoning { message_id: same, delta: more },
            ) if message_id == same => {
                delta.push_str(more);
                None
            }
            (
                LiveUpdate::TerminalOutput { call_id, delta },
                LiveUpdate::TerminalOutput { call_id: same, delta: more },
            ) if call_id == same => {
                delta.push_str(more);
                None
            }
            // Output of two commands that run side by side interleaves; each may pass the other.
            (LiveUpdate::TerminalOutput { .. }, LiveUpdate::TerminalOutput { .. }) => continue,
            _ => Some(item),
        };
    }
    Some(item)
}
