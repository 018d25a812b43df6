/** The chat in a real pseudo-terminal. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { captureOutput } from "../support/capture-output.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { MAIN } from "../support/spawn-up.ts";

const PYTHON = "/usr/bin/python3";

/** Waits for a text, then types; prints the output of the terminal and the exit code. */
const DRIVER = `
import json, os, pty, select, sys, time
argv, steps = json.loads(sys.argv[1]), json.loads(sys.argv[2])
pid, fd = pty.fork()
if pid == 0:
    os.execv(argv[0], argv)
out, mark, end = b"", 0, time.time() + 110
def read():
    global out
    if not select.select([fd], [], [], max(0, end - time.time()))[0]:
        sys.exit("timed out waiting for output; received so far: " + out.decode(errors="replace"))
    try:
        data = os.read(fd, 65536)
    except OSError:
        data = b""
    out += data
    return data != b""
for wait, keys in steps:
    while wait.encode() not in out[mark:] and read():
        pass
    # Output that arrived right after the text may be what the next step waits for.
    mark = out.find(wait.encode(), mark) + len(wait.encode())
    os.write(fd, keys.encode())
while read():
    pass
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps({"code": code, "screen": out.decode(errors="replace")}))
`;

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.close());

interface TerminalOutput {
  code: number;
  screen: string;
}

async function runInTerminal(id: string, steps: [string, string][]): Promise<TerminalOutput> {
  const argv = [process.execPath, MAIN, "session", "chat", id];
  const child = spawn(PYTHON, ["-c", DRIVER, JSON.stringify(argv), JSON.stringify(steps)], {
    env: { PATH: process.env.PATH, BACKPLANE_HOME: gateway.home, TERM: "xterm" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const { closed, out, err } = captureOutput(child);
  await closed;
  if (out() === "") throw new Error(err());
  return JSON.parse(out()) as TerminalOutput;
}

describe.runIf(existsSync(PYTHON))("in a pseudo-terminal", () => {
  test("chats, prompts for an approval, and exits with 0 on Ctrl-D", async () => {
    const { code, screen } = await runInTerminal("pty1", [
      ["> ", "hello\r"],
      ["echo: hello", ""],
      ["> ", '/tool agent {"goal":"/say kid"}\r'],
      ["(Enter: n): ", "y\r"],
      ["done in 1 step", ""],
      ["> ", "\u0004"],
    ]);
    expect(code).toBe(0);
    expect(screen).toContain('"goal": "/say kid"');
    expect(screen.match(/echo: hello/g)).toHaveLength(1);
  });

  test("ends the turn on Ctrl-C and exits with 130 on a second one", async () => {
    const { code, screen } = await runInTerminal("pty2", [
      ["> ", "/slow 400\\\r"],
      ["… ", "/say a b c d e f g h i j k l m n o p\r"],
      ["\na", "\u0003"],
      ["interrupted", "\u0003"],
    ]);
    expect(code).toBe(130);
    expect(screen).toContain("── interrupted ──");
  });
});
