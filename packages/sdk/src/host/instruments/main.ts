/**
 * The ready host: `node main.js ./provider.js#HelloProvider [frame bytes]` loads any module that implements
 * InstrumentProvider and speaks the protocol for it. The module is found from the working directory.
 */
import { InstrumentPlugin, serveInstruments, stdioTransport } from "@backplane/wire";
import { isProgram, keepForProtocol } from "../keep-stdio.ts";
import { externalContext } from "./external-context.ts";
import { loadProvider } from "./load-provider.ts";

if (isProgram(import.meta.url)) {
  const { stderr, stdin, stdout } = process;
  const [, , reference = "", frame_bytes] = process.argv;
  keepForProtocol();
  serveInstruments({
    transport: stdioTransport(stdin, stdout),
    plugin: new InstrumentPlugin({
      load: () => loadProvider(reference, process.cwd()),
      context: (params) => externalContext(params, (line) => void stderr.write(line)),
    }),
    ...(frame_bytes === undefined ? {} : { limits: { frame_bytes: Number(frame_bytes) } }),
    ended: () => process.exit(0),
  });
}
