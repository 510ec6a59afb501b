// Unit tests run in plain Node; `vscode` is the fake with a real text model.
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { alias: { vscode: fileURLToPath(new URL("test/vscode-fake.ts", import.meta.url)) } },
  test: { include: ["test/unit/**/*.test.ts"] },
});
