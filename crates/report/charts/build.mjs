// Makes plot.min.js: Observable Plot and the parts of D3 that it uses, in one script that defines `Plot`,
// headed by the licences of everything in it. The same package-lock.json gives the same bytes.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";

const bundled = await build({
  entryPoints: ["entry.mjs"],
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "Plot",
  target: "es2020",
  charset: "ascii",
  legalComments: "none",
  metafile: true,
  write: false,
});

const packages = new Set();
const [output] = Object.values(bundled.metafile.outputs);
for (const [path, { bytesInOutput }] of Object.entries(output.inputs)) {
  const inside = bytesInOutput > 0 && path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//);
  if (inside) packages.add(inside[1]);
}

// Packages under the very same text share it.
const byText = new Map();
for (const name of [...packages].sort()) {
  const folder = `node_modules/${name}`;
  const { version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
  if (!file) throw new Error(`${name} has no licence file`);
  const text = readFileSync(`${folder}/${file}`, "utf8").trim().replaceAll("*/", "* /");
  byText.set(text, [...(byText.get(text) ?? []), `${name} ${version}`]);
}
const notices = [...byText].map(([text, names]) => `${names.join(", ")}\n\n${text}\n`);
const head = `/*!\nMade from these packages by crates/report/charts/build.mjs of altway:\n\n${notices.join("\n----\n\n")}*/\n`;

const script = head + bundled.outputFiles[0].text;
if (/<\/script|<!--/i.test(script)) throw new Error("would end its element");
writeFileSync("plot.min.js", script);
console.log(`plot.min.js: ${script.length} characters, SHA-256 ${createHash("sha256").update(script).digest("hex")}`);
