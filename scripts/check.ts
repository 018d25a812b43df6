/**
 * Runs the static checks of package.json (CHECKS) concurrently and prints the output of each when it ends. The project
 * is built first, because the type-aware checks read the declarations of its packages.
 *
 *   npm run check
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";

const BUILD = "tsc -b";
const CHECKS = ["check:types", "check:lint", "check:format", "check:unused", "check:schemas"];

interface CommandResult {
  code: number;
  output: string;
}

/** `npm run` has put the programs of node_modules on the PATH. */
function run(command: string): Promise<CommandResult> {
  return new Promise((resolve, reject) => {
    const child = spawn("sh", ["-c", `{ ${command}; } 2>&1`], { stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (chunk) => {
      output += chunk;
    });
    child.on("error", reject);
    child.on("close", (code) => resolve({ code: code ?? 1, output }));
  });
}

async function runAndReport(name: string, command: string): Promise<boolean> {
  const { code, output } = await run(command);
  const seconds = Math.round(performance.now() / 1_000);
  const passed = code === 0;
  console.log(`${output}${name}: ${passed ? "passed" : `failed with exit code ${code}`} after ${seconds} s`);
  return passed;
}

const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as { scripts: Record<string, string> };
let passed = await runAndReport("build", BUILD);
if (passed) {
  const results = await Promise.all(CHECKS.map((name) => runAndReport(name, scripts[name]!)));
  passed = results.every(Boolean);
}
process.exitCode = passed ? 0 : 1;
