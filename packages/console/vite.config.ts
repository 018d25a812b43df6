/**
 * Builds the console into static files that the api module serves. `npm run build` calls it through
 * scripts/build-console.ts.
 */
import { fileURLToPath } from "node:url";
import { defaultClientConditions, defineConfig } from "vite";

export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  base: "/static/console/",
  // Workspace packages resolve to their sources, so the build does not depend on the build of other packages.
  resolve: { conditions: ["backplane-source", ...defaultClientConditions] },
  logLevel: "warn",
  css: { modules: { generateScopedName: "[name]_[local]_[hash:base64:4]" } },
  build: {
    outDir: fileURLToPath(new URL("../api/dist/console", import.meta.url)),
    emptyOutDir: true,
    assetsDir: "",
    // Inlined files would be data: URLs, which the content security policy refuses for scripts and fonts.
    assetsInlineLimit: 0,
    target: "es2023",
    // The package contains this file along with the bundled libraries.
    license: { fileName: "LICENSES.md" },
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // Libraries mark modules for server components with directives that mean nothing in a browser.
    rolldownOptions: { checks: { moduleLevelDirective: false } },
  },
});
