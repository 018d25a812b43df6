/** Echo peers behind one interface, which starts a child process, calls it and ends it. */
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { createBenchContext } from "../fixtures/bench-context.ts";

export interface EchoPeer {
  key: string;
  open(): Promise<EchoConnection>;
}

export interface EchoConnection {
  /** Resolves with the echoed text. */
  call(text: string): Promise<string>;
  close(): Promise<void>;
}

const childPath = (file: string) => fileURLToPath(new URL(`../children/${file}`, import.meta.url));

function startChild(file: string): ChildProcess {
  return spawn(process.execPath, [childPath(file)], { stdio: ["pipe", "pipe", "inherit"] });
}

async function endChild(child: ChildProcess): Promise<void> {
  const exited = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await exited;
}

interface RawProtocol {
  key: string;
  program: string;
  request: (id: string, text: string) => unknown;
  textOf: (reply: never) => string;
}

/** A minimal host for a raw child process. Its figures are the limit that ours are compared with. */
function rawPeer({ key, program, request, textOf }: RawProtocol): EchoPeer {
  return {
    key,
    async open() {
      const child = startChild(program);
      const waiting = new Map<string, (text: string) => void>();
      let next = 0;
      let unread: Buffer = Buffer.alloc(0);
      child.stdout!.on("data", (chunk: Buffer) => {
        unread = unread.length === 0 ? chunk : Buffer.concat([unread, chunk]);
        for (;;) {
          const head = unread.indexOf("\r\n\r\n");
          if (head < 0) return;
          const stop = head + 4 + Number(unread.toString("latin1", 16, head));
          if (unread.length < stop) return;
          const reply = JSON.parse(unread.toString("utf8", head + 4, stop)) as { id: string };
          unread = unread.subarray(stop);
          waiting.get(reply.id)!(textOf(reply as never));
          waiting.delete(reply.id);
        }
      });
      return {
        call: (text) =>
          new Promise((resolve) => {
            const id = `inv_${next++}`;
            waiting.set(id, resolve);
            const body = JSON.stringify(request(id, text));
            child.stdin!.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
          }),
        close: () => endChild(child),
      };
    },
  };
}

/** The smallest message that can be echoed. */
export const rawContentLength = rawPeer({
  key: "raw-content-length",
  program: "raw-content-length.mjs",
  request: (id, text) => ({ id, input: { text } }),
  textOf: (reply: { output: { text: string } }) => reply.output.text,
});

/** The messages of vai.rpc.v1, including the context: the limit for a call as the protocol defines it. */
export const rawVai = rawPeer({
  key: "raw-vai",
  program: "raw-vai.mjs",
  request: (id, text) => ({
    protocol: "vai.rpc.v1",
    type: "request",
    id,
    op: "tool.invoke",
    body: { tool_execution_id: id, input: { text }, export_id: "echo", context: createBenchContext(id) },
  }),
  textOf: (reply: { body: { result: { content: { text: string }[] } } }) =>
    reply.body.result.content[0]!.text,
});

export const rawNdjson: EchoPeer = {
  key: "raw-ndjson",
  async open() {
    const child = startChild("raw-ndjson.mjs");
    const waiting = new Map<number, (text: string) => void>();
    let next = 0;
    let unread = "";
    child.stdout!.setEncoding("utf8");
    child.stdout!.on("data", (chunk: string) => {
      unread += chunk;
      let from = 0;
      for (;;) {
        const stop = unread.indexOf("\n", from);
        if (stop < 0) break;
        const reply = JSON.parse(unread.slice(from, stop)) as { id: number; output: { text: string } };
        from = stop + 1;
        waiting.get(reply.id)!(reply.output.text);
        waiting.delete(reply.id);
      }
      unread = unread.slice(from);
    });
    return {
      call: (text) =>
        new Promise((resolve) => {
          const id = next++;
          waiting.set(id, resolve);
          child.stdin!.write(`${JSON.stringify({ id, input: { text } })}\n`);
        }),
      close: () => endChild(child),
    };
  },
};

export const mcpV1: EchoPeer = {
  key: "mcp-1.32.2",
  async open() {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    const client = new Client({ name: "bench", version: "1.0.0" });
    await client.connect(
      new StdioClientTransport({ command: process.execPath, args: [childPath("mcp-1.mjs")] }),
    );
    return {
      call: async (text) => {
        const result = await client.callTool({ name: "echo", arguments: { text } });
        return (result.content as { text: string }[])[0]!.text;
      },
      close: () => client.close(),
    };
  },
};

export const mcpV2: EchoPeer = {
  key: "mcp-2.4.0",
  async open() {
    const { Client } = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const client = new Client({ name: "bench", version: "1.0.0" });
    await client.connect(
      new StdioClientTransport({ command: process.execPath, args: [childPath("mcp-2.mjs")] }),
    );
    return {
      call: async (text) => {
        const result = await client.callTool({ name: "echo", arguments: { text } });
        return (result.content as { text: string }[])[0]!.text;
      },
      close: () => client.close(),
    };
  },
};

export const vscodeJsonrpc: EchoPeer = {
  key: "vscode-jsonrpc-10",
  async open() {
    const rpc = (await import("vscode-jsonrpc/node")).default;
    const child = startChild("vscode-jsonrpc.mjs");
    const connection = rpc.createMessageConnection(
      new rpc.StreamMessageReader(child.stdout!),
      new rpc.StreamMessageWriter(child.stdin!),
    );
    connection.listen();
    return {
      call: async (text) => ((await connection.sendRequest("echo", { text })) as { text: string }).text,
      close: async () => {
        connection.dispose();
        await endChild(child);
      },
    };
  },
};
