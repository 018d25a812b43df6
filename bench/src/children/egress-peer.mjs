/**
 * One end of a transfer in its own process. `serve ADDRESS` sends endlessly once it has received one byte. `fetch`
 * reads lines of JSON {port, host, connect, bytes} and answers each with the milliseconds from the byte that it sends
 * to the last byte that it receives.
 */
import { connect, createServer } from "node:net";
import { createInterface } from "node:readline";

const [role, address] = process.argv.slice(2);
if (role === "serve") {
  const block = Buffer.alloc(256 * 1024, 7);
  const server = createServer((socket) => {
    socket.on("error", () => {});
    const send = () => {
      while (!socket.destroyed && socket.write(block));
    };
    socket.once("data", send);
    socket.on("drain", send);
  });
  server.listen(0, address, () => console.log(server.address().port));
} else {
  createInterface({ input: process.stdin }).on("line", (line) => fetchOnce(JSON.parse(line)));
}

function fetchOnce({ host, port, connect: target, bytes }) {
  const socket = connect({ host, port });
  let received = 0;
  let from = 0;
  const begin = () => {
    from = performance.now();
    // A byte that is neither text nor TLS, which the proxy forwards unchanged.
    socket.write(Buffer.from([0]));
    socket.on("data", (chunk) => {
      received += chunk.length;
      if (received < bytes) return;
      socket.removeAllListeners("data");
      socket.destroy();
      console.log(performance.now() - from);
    });
  };
  socket.once("connect", () => {
    if (target === null) return begin();
    socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
    socket.once("data", (head) => {
      if (!head.toString().startsWith("HTTP/1.1 200")) throw new Error(head.toString());
      begin();
    });
  });
}
