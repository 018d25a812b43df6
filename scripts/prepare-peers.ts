/**
 * Installs the published MCP clients, servers and suites that the tests use. They would be half of all packages, so
 * the default install does not include them.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

const FOLDER = "test/peers";

function isInstalled(): boolean {
  const { dependencies } = JSON.parse(readFileSync(`${FOLDER}/package.json`, "utf8")) as {
    dependencies: Record<string, string>;
  };
  return Object.entries(dependencies).every(([name, version]) => {
    const file = `${FOLDER}/node_modules/${name}/package.json`;
    return (
      existsSync(file) && (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version === version
    );
  });
}

if (!isInstalled()) {
  console.error(`installing the packages of ${FOLDER} for the tests`);
  // Install scripts of third-party packages are disabled; the peers work without them.
  const { status } = spawnSync("npm", ["ci", "--ignore-scripts", "--no-fund", "--no-audit"], {
    cwd: FOLDER,
    stdio: ["ignore", 2, "inherit"],
  });
  // Not an error here: the tests that need the peers report them as missing, and all others can run.
  if (status !== 0) console.error(`npm ci failed in ${FOLDER}; tests with published MCP programs will fail`);
}
