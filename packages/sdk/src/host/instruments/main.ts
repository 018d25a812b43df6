/**
 * The host program for instrument modules (instr.external-host): `node instrument-host.mjs ./provider.js#HelloProvider
 * [frame bytes]` loads any module that implements InstrumentProvider and speaks the protocol for it. The module is
 * resolved from the working directory. The host is bundled into one file, which a sandbox mounts beside the package.
 */
import { InstrumentPlugin, serveInstruments, stdioTransport } from "@backplane/wire";
import { reserveStdio } from "../reserve-stdio.ts";
import { createExternalContext } from "./external-context.ts";
import { loadProvider } from "./load-provider.ts";

const [, , reference = "", frame_bytes] = process.argv;
const { stdin, stdout } = reserveStdio();
serveInstruments({
  transport: stdioTransport(stdin, stdout),
  plugin: new InstrumentPlugin({
    load: () => loadProvider(reference, process.cwd()),
    context: (params) => createExternalContext(params, (line) => void process.stderr.write(line)),
  }),
  ...(frame_bytes === undefined ? {} : { limits: { frame_bytes: Number(frame_bytes) } }),
  onEnd: () => process.exit(0),
});
