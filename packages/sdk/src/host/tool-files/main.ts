/**
 * The program that hosts a package of tool files. It is bundled into one file, which a sandbox mounts beside
 * the package, and exits on shutdown or when the gateway disconnects.
 *   serve FOLDER PACKAGE_ID VERSION [WORKING_DIR]   speaks vai.rpc.v1 on stdin and stdout
 *   report FOLDER FILE...                           imports the files and reports each on descriptor 3
 */
import { stdioTransport, VaiPlugin } from "@backplane/wire";
import { reserveStdio } from "../reserve-stdio.ts";
import { reportFiles } from "./report-files.ts";
import { serveToolFiles } from "./serve-tool-files.ts";

/** How long the process waits for the answers of calls in flight after a shutdown. */
const DRAIN_MS = 1_000;

const [program = "", mode, folder = "", ...rest] = process.argv.slice(1);
if (mode === "report") await reportFiles(folder, rest);
else if (mode === "serve") serve(rest[0] ?? "", rest[1] ?? "", rest[2]);
else process.exitCode = 2;

function serve(package_id: string, version: string, working_dir?: string): void {
  if (working_dir !== undefined) process.chdir(working_dir);
  const { stdin, stdout } = reserveStdio();
  const command = [process.execPath, program, "report", folder];
  const peer = new VaiPlugin({
    transport: stdioTransport(stdin, stdout),
    identity: { package_id, version },
    handle: serveToolFiles({ folder, command }),
    onShutdown() {
      setTimeout(() => process.exit(0), peer.inFlight === 0 ? 0 : DRAIN_MS);
    },
    onFailure(error) {
      process.stderr.write(`${error.message}\n`);
      process.exit(1);
    },
  });
  peer.start();
}
