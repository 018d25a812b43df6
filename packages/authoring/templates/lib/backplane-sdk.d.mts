/** The types of backplane-sdk.mjs. `npm install` gives them to your editor; the plugin runs without it. */
export * from "@backplane/sdk";
