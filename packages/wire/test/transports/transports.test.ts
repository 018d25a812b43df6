import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { PassThrough } from "node:stream";
import { afterEach, describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { memoryTransportPair, stdioTransport, type Transport } from "../../src/index.ts";

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

function startCat(): { child: ChildProcess; transport: Transport } {
  const child = spawn("cat", [], { stdio: ["pipe", "pipe", "ignore"] });
  children.push(child);
  return { child, transport: stdioTransport(child.stdout!, child.stdin!) };
}

/** Creates pairs of transports: the reader receives what the writer writes. */
const TRANSPORTS: Record<string, () => { writer: Transport; reader: Transport }> = {
  memory: () => {
    const [writer, reader] = memoryTransportPair();
    return { writer, reader };
  },
  stdio: () => {
    const { transport } = startCat();
    return { writer: transport, reader: transport };
  },
};
const waitForClose = (transport: Transport): Promise<Error | null> =>
  new Promise((resolve) => transport.onClose((error) => resolve(error)));

for (const [kind, createTransports] of Object.entries(TRANSPORTS)) {
  describe(kind, () => {
    test("delivers text and bytes in order, then the end exactly once", async () => {
      const { writer, reader } = createTransports();
      let text = "";
      let ends = 0;
      reader.onData((chunk) => {
        text += Buffer.from(chunk).toString();
      });
      const end = new Promise<void>((resolve) => {
        reader.onClose((error) => {
          ends += error === null ? 1 : 100;
          setTimeout(resolve, 20);
        });
      });
      writer.write("ä");
      writer.write(Buffer.from("😀"));
      writer.write("z");
      writer.close();
      writer.close();
      await end;
      expect({ text, ends }).toEqual({ text: "ä😀z", ends: 1 });
    });

    test("buffers data and the end while paused", async () => {
      const { writer, reader } = createTransports();
      let bytes = 0;
      let has_ended = false;
      reader.onData((chunk) => {
        bytes += chunk.length;
        reader.pause();
      });
      const end = waitForClose(reader).then(() => {
        has_ended = true;
      });
      for (let i = 0; i < 40; i++) writer.write("x".repeat(10_000));
      writer.close();
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect(bytes).toBeLessThan(400_000);
      expect(has_ended).toBe(false);
      const timer = setInterval(() => reader.resume(), 1);
      await end;
      clearInterval(timer);
      expect(bytes).toBe(400_000);
    });

    verifies(
      "wire.backpressure",
      "reports when it is full, counts queued bytes and reports the drain",
      async () => {
        const { writer, reader } = createTransports();
        let bytes = 0;
        reader.onData((chunk) => {
          bytes += chunk.length;
        });
        reader.pause();
        let accepted = 0;
        let more = true;
        // Pipes and the program between them buffer a bounded number of bytes; the rest stays queued here.
        while (writer.queuedBytes < 100_000 && accepted < 1_000) {
          more = writer.write(Buffer.alloc(10_000));
          accepted++;
          await new Promise(setImmediate);
        }
        expect(accepted).toBeLessThan(200);
        expect(more).toBe(false);
        const drained = new Promise<void>((resolve) => writer.onDrain(resolve));
        reader.resume();
        await drained;
        while (bytes < accepted * 10_000) await new Promise(setImmediate);
        expect(writer.queuedBytes).toBe(0);
      },
    );
  });
}

describe("broken pipes", () => {
  test("reports the end of a killed process and never throws on later writes", async () => {
    const { child, transport } = startCat();
    transport.onData(() => undefined);
    const end = waitForClose(transport);
    const gone = once(child, "close");
    child.kill("SIGKILL");
    for (let i = 0; i < 200; i++) {
      transport.write("x".repeat(10_000));
      await new Promise(setImmediate);
    }
    await end;
    await gone;
    transport.write("after");
    transport.close();
    expect(transport.queuedBytes).toBe(0);
  });

  test("reports a read error immediately and a write error at the next write, without crashing", async () => {
    const readable = new PassThrough();
    const writable = new PassThrough();
    const transport = stdioTransport(readable, writable);
    let reported: unknown = "nothing";
    transport.onClose((error) => {
      reported = error?.message;
    });
    writable.destroy(Object.assign(new Error("write EPIPE"), { code: "EPIPE" }));
    await new Promise(setImmediate);
    expect(reported).toBe("nothing");
    transport.write("x");
    await new Promise(setImmediate);
    expect(reported).toBe("write EPIPE");

    const failed = stdioTransport(new PassThrough().destroy(new Error("read ECONNRESET")), new PassThrough());
    await new Promise(setImmediate);
    expect((await waitForClose(failed))?.message).toBe("read ECONNRESET");
  });

  test("wakes a writer that waits for a drain when the pipe breaks", async () => {
    const writable = new PassThrough({ highWaterMark: 10 });
    const transport = stdioTransport(new PassThrough(), writable);
    const drained = new Promise<void>((resolve) => transport.onDrain(resolve));
    expect(transport.write("more than ten bytes")).toBe(false);
    writable.destroy(new Error("write EPIPE"));
    await drained;
    expect(transport.queuedBytes).toBe(0);
  });
});
