/** The types of backplane-sdk.mjs, for your editor. `npm install` provides them; the plugin runs without them. */
export * from "@backplane/sdk";
