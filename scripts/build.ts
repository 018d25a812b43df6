/**
 * Builds everything but the sandbox-init programs (build-sandbox-init.ts), step by step, and shows on stderr each step
 * that takes longer than two seconds: `npm start` builds first, and a person who runs it must see that it is working.
 *
 *   --no-type-check   takes a fifth of the time, but neither checks types nor writes declarations; the next build
 *                     without this flag, or `npm run check`, does both
 */
import { spawn } from "node:child_process";

const unchecked = process.argv.includes("--no-type-check");
const STEPS = [
  {
    label: "Compiling TypeScript",
    command: unchecked ? ["node", "scripts/compile-unchecked.ts"] : ["tsc", "-b"],
  },
  { label: "Bundling the packages", command: ["node", "scripts/build-packages.ts"] },
  { label: "Bundling the SDK", command: ["node", "scripts/build-sdk-bundle.ts"] },
  { label: "Building the tool host", command: ["node", "scripts/build-tool-host.ts"] },
  { label: "Building the instrument host", command: ["node", "scripts/build-instrument-host.ts"] },
  { label: "Building the examples", command: ["node", "scripts/build-examples.ts"] },
  { label: "Building the explorer", command: ["node", "scripts/build-explorer.ts"] },
  { label: "Building the console", command: ["node", "scripts/build-console.ts"] },
];
const SILENCE_MS = 2_000;
const ERASE = "\r\u001b[2K";

async function run(label: string, [program, ...args]: string[]): Promise<number> {
  const began = performance.now();
  const terminal = process.stderr.isTTY === true;
  let drawn = false;
  const erase = () => {
    if (drawn) process.stderr.write(ERASE);
    drawn = false;
  };
  const timer = setInterval(() => {
    const text = `${label} (${Math.round((performance.now() - began) / 1_000)} s)`;
    erase();
    process.stderr.write(terminal ? text : `${text}\n`);
    drawn = terminal;
  }, SILENCE_MS);
  // npm puts node_modules/.bin on the PATH.
  const child = spawn(program!, args, {
    stdio: ["ignore", "pipe", "pipe"],
    shell: process.platform === "win32",
  });
  for (const [from, to] of [
    [child.stdout, process.stdout],
    [child.stderr, process.stderr],
  ] as const)
    from.on("data", (chunk) => {
      erase();
      to.write(chunk);
    });
  try {
    return await new Promise((resolve, reject) => {
      child.once("error", reject).once("close", (code) => resolve(code ?? 1));
    });
  } finally {
    clearInterval(timer);
    erase();
  }
}

for (const { label, command } of STEPS) {
  const code = await run(label, command);
  if (code === 0) continue;
  process.exitCode = code;
  break;
}
