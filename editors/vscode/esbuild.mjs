// Bundles the extension host and the panel's page into dist/. Run by `npm run build`.
import { build } from "esbuild";

const common = { bundle: true, minify: true, logLevel: "warning", legalComments: "none" };
await Promise.all([
  build({ ...common, entryPoints: ["src/extension.ts"], outfile: "dist/extension.js", platform: "node", format: "cjs",
    target: "node20", external: ["vscode"] }),
  build({ ...common, entryPoints: ["webview/main.ts"], outfile: "dist/panel.js", format: "iife", target: "es2022" }),
  build({ ...common, entryPoints: ["webview/styles.css"], outfile: "dist/panel.css" }),
]);
