//! Looking at the first bytes of a connection, which stay where they are.

use std::io;

use proto::instance::{Meant, meant};
use proto::limits::FIRST_BYTES_MAX;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Waits until the first bytes say whom they mean; `None` when the connection ends before. The caller bounds the time.
///
/// # Errors
/// When the connection breaks.
pub(super) async fn look(stream: &TcpStream) -> io::Result<Option<Meant>> {
    let mut bytes = Vec::new();
    let mut seen = 0;
    loop {
        let ready = stream.ready(Interest::READABLE).await?;
        // Memory is for those that say something.
        bytes.resize(FIRST_BYTES_MAX, 0);
        // That nothing is new is told to tokio as what it takes for an empty socket: it waits until more arrives then.
        let looked = stream.try_io(Interest::READABLE, || match sys::socket::peek(stream, &mut bytes)? {
            length if length > seen => Ok(length),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        });
        match looked {
            Ok(length) => {
                seen = length;
                match meant(&bytes[..seen]) {
                    Meant::More => {}
                    decided => return Ok(Some(decided)),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if ready.is_read_closed() {
                    return Ok(None);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proto::hello::{Connecting, SessionKey};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn what_comes_byte_by_byte_is_waited_for_and_left_there() {
        let (mut client, mut server) = pair().await;
        let (_, hello) = Connecting::new(SessionKey([1; 32]), [0xab; 16], 1, [2; 16]);
        let said = tokio::spawn(async move {
            for byte in hello {
                client.write_all(&[byte]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            client
        });
        assert_eq!(look(&server).await.unwrap(), Some(Meant::Tag([0xab; 4])));
        let _client = said.await.unwrap();
        let mut read = [0; 72];
        server.read_exact(&mut read).await.unwrap();
        assert_eq!(read, hello);
    }

    #[tokio::test]
    async fn an_end_is_seen_with_or_without_bytes_before_it() {
        for said in [&b""[..], b"LHD", &[0x16, 3, 1, 2, 0, 1]] {
            let (mut client, server) = pair().await;
            client.write_all(said).await.unwrap();
            drop(client);
            assert_eq!(look(&server).await.unwrap(), None, "{said:?}");
        }
    }

    #[tokio::test]
    async fn it_waits_without_spinning_for_what_does_not_come() {
        let (mut client, server) = pair().await;
        client.write_all(b"LH").await.unwrap();
        let waited = tokio::time::timeout(Duration::from_millis(100), look(&server)).await;
        assert!(waited.is_err(), "{waited:?}");
        client.write_all(b"XY").await.unwrap();
        assert_eq!(look(&server).await.unwrap(), Some(Meant::Nothing));
    }
}
