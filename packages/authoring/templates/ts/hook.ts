import { definePlugin, hook, serve } from "../lib/backplane-sdk.mjs";

/** An event may be delivered again after a failure: use `call.delivery_id` to do the work only once. */
const watcher = hook({
  id: "__EXPORT_ID__",
  on: ["run.completed", "invocation.settled"],
  handle(event, call) {
    call.log(`${event.type} ${event.subject.id}`);
    call.progress(`${event.type} ${event.subject.id}`);
  },
});

serve(definePlugin({ package_id: "__PACKAGE_ID__", version: "0.1.0", exports: [watcher] }));
