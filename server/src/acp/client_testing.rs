//! A client in this process, for the tests of the services that the editor answers: scripted, and free to misbehave.

use super::client::ClientLink;
use super::outbox::Outbox;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::{Agent, Channel, Client, Error, UntypedMessage, on_receive_request};
use futures::future::BoxFuture;
use serde_json::Value;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// What the client does with a request: method and parameters in, answer out; an answer may never come.
pub type Answer = Arc<dyn Fn(String, Value) -> BoxFuture<'static, Result<Value, Error>> + Send + Sync>;

/// The link to a scripted client, and what it was asked.
pub struct ScriptedClient {
    pub link: ClientLink,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    withdrawn: Arc<Mutex<Vec<String>>>,
}

impl ScriptedClient {
    /// Connects to a client that answers like this.
    pub async fn connect(answer: Answer) -> Self {
        let asked = Arc::<Mutex<Vec<(String, Value)>>>::default();
        let (ours, theirs) = Channel::duplex();
        let withdrawn = Arc::<Mutex<Vec<String>>>::default();
        let (noted, noted_withdrawn) = (asked.clone(), withdrawn.clone());
        let client = Client.v1().on_receive_request(
            async move |message: UntypedMessage, responder, _cx| {
                noted.lock().unwrap().push((message.method.clone(), message.params.clone()));
                let method = message.method.clone();
                let answered = answer(message.method, message.params);
                let withdrawn = noted_withdrawn.clone();
                tokio::spawn(async move {
                    let cancellation = responder.cancellation();
                    tokio::select! {
                        answer = answered => {
                            let _ = responder.respond_with_result(answer);
                        }
                        () = cancellation.cancelled() => withdrawn.lock().unwrap().push(method),
                    }
                });
                Ok(())
            },
            on_receive_request!(),
        );
        tokio::spawn(client.connect_with(theirs, async |_cx| pending::<Result<(), Error>>().await));
        let (connected, connection) = oneshot::channel();
        tokio::spawn(Agent.v1().connect_with(ours, async move |cx: ConnectionTo<Client>| {
            let _ = connected.send(cx);
            pending::<Result<(), Error>>().await
        }));
        let outbox = Outbox::new(Arc::default());
        let delivering = outbox.clone();
        tokio::spawn(async move { delivering.deliver(Arc::new(|_| {})).await });
        let connection = connection.await.unwrap();
        Self { link: ClientLink::new(connection, outbox), asked, withdrawn }
    }

    /// Connects to a client that answers at once, by a plain function.
    pub async fn answering(
        answer: impl Fn(&str, &Value) -> Result<Value, Error> + Send + Sync + 'static,
    ) -> Self {
        Self::connect(Arc::new(move |method, params| {
            let answer = answer(&method, &params);
            Box::pin(async move { answer })
        }))
        .await
    }

    /// Every request so far, with its parameters.
    pub fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap().clone()
    }

    /// The methods of every request so far.
    pub fn methods(&self) -> Vec<String> {
        self.asked().into_iter().map(|(method, _)| method).collect()
    }

    /// Waits until the client was asked this.
    pub async fn was_asked(&self, method: &str) {
        until(|| self.methods().iter().any(|asked| asked == method)).await;
    }

    /// Waits until a request of this method was withdrawn.
    pub async fn was_withdrawn(&self, method: &str) {
        until(|| self.withdrawn.lock().unwrap().iter().any(|withdrawn| withdrawn == method)).await;
    }
}

/// Waits for a condition; panics after ten seconds.
pub async fn until(condition: impl Fn() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("what was waited for did not happen");
}
