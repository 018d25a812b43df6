// The plugin side of the wire module alone.
import { stdioTransport, VaiPlugin } from "@backplane/wire";

new VaiPlugin({
  transport: stdioTransport(process.stdin, process.stdout),
  identity: { package_id: "bench/echo", version: "1.0.0" },
  handle: async (call) => ({ status: "succeeded", result: call.body.input }),
  onShutdown: () => process.exit(0),
  onFailure: () => process.exit(1),
}).start();
