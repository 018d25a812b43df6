/**
 * The program that hosts a package of tool files; it is bundled into one file, which a sandbox sees beside the
 * package. It ends when the gateway says so or is gone.
 *   serve FOLDER PACKAGE_ID VERSION [WORKING_DIR]   speaks vai.rpc.v1 on stdin and stdout
 *   report FOLDER FILE...                           imports the files and tells of each on descriptor 3
 */
import { stdioTransport, VaiPlugin } from "@backplane/wire";
import { keepForProtocol } from "../keep-for-protocol.ts";
import { reportFiles } from "./report-files.ts";
import { serveToolFiles } from "./serve-tool-files.ts";

/** How long calls in flight have to answer once told to stop. */
const LAST_WORDS_MS = 1_000;

const [program = "", mode, folder = "", ...rest] = process.argv.slice(1);
if (mode === "report") await reportFiles(folder, rest);
else if (mode === "serve") serve(rest[0] ?? "", rest[1] ?? "", rest[2]);
else process.exitCode = 2;

function serve(package_id: string, version: string, working_dir?: string): void {
  if (working_dir !== undefined) process.chdir(working_dir);
  const { stdin, stdout } = keepForProtocol();
  const command = [process.execPath, program, "report", folder];
  const peer = new VaiPlugin({
    transport: stdioTransport(stdin, stdout),
    identity: { package_id, version },
    handle: serveToolFiles({ folder, command }),
    onShutdown() {
      setTimeout(() => process.exit(0), peer.inFlight === 0 ? 0 : LAST_WORDS_MS);
    },
    onFailure(error) {
      process.stderr.write(`${error.message}\n`);
      process.exit(1);
    },
  });
  peer.start();
}
