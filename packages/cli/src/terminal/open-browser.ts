import { spawn } from "node:child_process";

/** Opens a link in the default browser. Errors are ignored, because the command also prints the link. */
export function openBrowser(url: string): void {
  const opener =
    process.platform === "darwin" ? "open" : process.platform === "win32" ? "explorer" : "xdg-open";
  const child = spawn(opener, [url], { stdio: "ignore", detached: true });
  child.on("error", () => {});
  child.unref();
}
