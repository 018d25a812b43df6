/**
 * Installs the peers of the benchmark if one is missing, builds the project, then runs the benchmark. The default
 * install does not include the peers.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

function run(command: string, args: string[], cwd: string): number {
  return (
    spawnSync(command, args, { cwd, stdio: ["inherit", command === "npm" ? 2 : "inherit", "inherit"] })
      .status ?? 1
  );
}

function main(args: string[]): number {
  if (!isInstalled()) {
    // Install scripts of third-party packages are disabled; the peers work without them.
    const installed = run("npm", ["ci", "--ignore-scripts", "--no-fund", "--no-audit"], "bench");
    if (installed !== 0) return installed;
  }
  const built = run("npm", ["run", "--silent", "build"], ".");
  return built === 0 ? run("node", ["src/main.ts", ...args], "bench") : built;
}

function isInstalled(): boolean {
  const { dependencies } = JSON.parse(readFileSync("bench/package.json", "utf8")) as {
    dependencies: Record<string, string>;
  };
  return Object.keys(dependencies).every((name) => existsSync(`bench/node_modules/${name}`));
}

process.exitCode = main(process.argv.slice(2));
