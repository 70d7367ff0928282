use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::*;

/// What came of a handshake, at both ends.
struct Met {
    client: std::io::Result<TlsStream<DuplexStream>>,
    server: std::io::Result<TlsStream<DuplexStream>>,
}

async fn meet(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> Met {
    let (near, far) = tokio::io::duplex(1 << 16);
    let connect = async {
        let mut stream = TlsConnector::from(client).connect(server_name(None), near).await?;
        // TLS 1.3: what the server says of the client's certificate comes after the client's handshake.
        stream.read_exact(&mut [0]).await?;
        Ok(TlsStream::Client(stream))
    };
    let accept = async {
        let mut stream = TlsAcceptor::from(server).accept(far).await?;
        stream.write_all(b".").await?;
        stream.flush().await?;
        Ok(TlsStream::Server(stream))
    };
    let (client, server) = tokio::join!(connect, accept);
    Met { client, server }
}

fn trusting() -> Judge {
    Arc::new(|_| Ok(()))
}

fn protocol(stream: &TlsStream<DuplexStream>) -> Option<Vec<u8>> {
    stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec)
}

#[tokio::test]
async fn each_end_knows_the_other_by_the_key_it_proved_to_hold() {
    let [server_id, client_id] = ["server", "client"].map(|name| service::ephemeral(name).unwrap());
    let accepting = server(&server_id, &[b"b", b"a"], AskClient::Optional).unwrap();
    let connecting = client(trusting(), Arc::default(), &[b"a"], Some(&client_id)).unwrap();
    let met = meet(connecting, accepting.clone()).await;
    let (near, far) = (met.client.unwrap(), met.server.unwrap());
    assert_eq!(peer(&near), Some(Fingerprint::of(&server_id.certificate)));
    assert_eq!(peer(&far), Some(Fingerprint::of(&client_id.certificate)));
    assert_eq!((protocol(&near), protocol(&far)), (Some(b"a".to_vec()), Some(b"a".to_vec())));

    let nameless = client(trusting(), Arc::default(), &[b"a"], None).unwrap();
    assert_eq!(peer(&meet(nameless, accepting).await.server.unwrap()), None, "who shows none is let in, unknown");
    let asks_not = server(&server_id, &[b"a"], AskClient::No).unwrap();
    let connecting = client(trusting(), Arc::default(), &[b"a"], Some(&client_id)).unwrap();
    assert_eq!(peer(&meet(connecting, asks_not).await.server.unwrap()), None, "and nobody shows it unasked");
}

#[tokio::test]
async fn a_certificate_without_its_key_is_worth_nothing() {
    let [server_id, client_id, thief] = ["server", "client", "thief"].map(|name| service::ephemeral(name).unwrap());
    let accepting = server(&server_id, &[b"a"], AskClient::Optional).unwrap();
    // Made by hand: no configuration is given for a key that is not the certificate's.
    let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&own(&thief).1).unwrap();
    let stolen = rustls::sign::CertifiedKey::new(own(&client_id).0, key);
    let verifier =
        Pinned { judge: trusting(), refusal: Arc::default(), algorithms: provider().signature_verification_algorithms };
    let mut connecting = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(stolen)));
    connecting.alpn_protocols = vec![b"a".to_vec()];
    let met = meet(Arc::new(connecting), accepting).await;
    assert!(met.server.is_err() && met.client.is_err());
}

#[tokio::test]
async fn ends_that_share_no_protocol_part_and_the_judge_has_the_last_word() {
    let id = service::ephemeral("server").unwrap();
    let accepting = server(&id, &[b"a"], AskClient::Optional).unwrap();
    let other = client(trusting(), Arc::default(), &[b"c"], None).unwrap();
    assert!(meet(other, accepting.clone()).await.server.is_err());

    let refusal = Arc::new(Mutex::new(None));
    let strict: Judge = Arc::new(|found| Err(format!("not {found}")));
    let met = meet(client(strict, refusal.clone(), &[b"a"], None).unwrap(), accepting).await;
    assert!(met.client.is_err());
    let told = refusal.lock().unwrap().take();
    assert_eq!(told, Some(format!("not {}", Fingerprint::of(&id.certificate))));
}
