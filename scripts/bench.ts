/** Installs the bench's own peers the first time, builds, then runs it. The default install knows nothing of them. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";

function run(command: string, args: string[], cwd: string): number {
  return (
    spawnSync(command, args, { cwd, stdio: ["inherit", command === "npm" ? 2 : "inherit", "inherit"] })
      .status ?? 1
  );
}

function main(words: string[]): number {
  if (!existsSync("bench/node_modules/fastify")) {
    const installed = run("npm", ["ci", "--no-fund", "--no-audit"], "bench");
    if (installed !== 0) return installed;
  }
  const built = run("npm", ["run", "--silent", "build"], ".");
  return built === 0 ? run("node", ["src/main.ts", ...words], "bench") : built;
}

process.exitCode = main(process.argv.slice(2));
