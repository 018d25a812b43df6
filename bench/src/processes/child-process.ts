/** A child process that answers each line on stdin with one line on stdout. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export interface Child {
  pid: number;
  /** Parses the next line as JSON. */
  readLine<T>(): Promise<T>;
  request<T>(message: unknown): Promise<T>;
  stop(): Promise<void>;
}

export function startChild(program: URL, args: string[] = [], flags: string[] = []): Child {
  const path = fileURLToPath(program);
  const child = spawn(process.execPath, [...flags, path, ...args], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const readLine = async <T>(): Promise<T> => {
    const { value, done } = await lines.next();
    if (done === true) throw new Error(`${path} exited before it answered`);
    return JSON.parse(value) as T;
  };
  return {
    pid: child.pid!,
    readLine,
    request(message) {
      child.stdin.write(`${JSON.stringify(message)}\n`);
      return readLine();
    },
    stop: () =>
      new Promise((resolve) => {
        child.once("exit", () => resolve());
        child.kill("SIGKILL");
      }),
  };
}
