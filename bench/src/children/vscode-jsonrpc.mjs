// Echoes requests through vscode-jsonrpc.
import rpc from "vscode-jsonrpc/node";

const connection = rpc.createMessageConnection(
  new rpc.StreamMessageReader(process.stdin),
  new rpc.StreamMessageWriter(process.stdout),
);
connection.onRequest("echo", (params) => params);
connection.listen();
