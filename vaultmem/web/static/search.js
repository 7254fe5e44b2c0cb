// Search in exported pages. Terms are in scripts, since a browser does not let files read other
// files: each script passes its part to `takeTerms`, and a search loads the letters that it needs.
"use strict";

{ // A scope of its own: vaultmem.js has some of the same names.
  const MOST = 30;
  const ENDINGS = /^[a-z]?(?:s|es|ed|ing|er|ers|ly|al|ally|ion|ions|ation|ations|ment|ments|ness|able|ible|ity|ful|ive|ize|e|y|ies|ied|n|en)?$/;

  const parts = new Map();
  const waiting = new Map();

  globalThis.takeTerms = (name, value) => {
    const isList = name === "notes";
    parts.set(name, isList ? value : new Map(Object.entries(value)));
    waiting.get(name)?.done();
  };

  function load(name) {
    if (!waiting.has(name)) {
      const wait = {};
      wait.promise = new Promise((done) => { wait.done = done; });
      waiting.set(name, wait);
      const script = document.createElement("script");
      script.src = `search/${name}.js`;
      script.addEventListener("error", wait.done);
      document.head.append(script);
    }
    return waiting.get(name).promise;
  }

  const splitWords = (text) =>
    text.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

  // Terms are stems. A word matches a stem that it begins with, if the rest is a common ending. A
  // prefix of a term matches too, with a lower weight.
  function weigh(word, term) {
    if (word === term) return 1;
    if (term.startsWith(word)) return word.length < 2 ? 0 : 0.6 * (word.length / term.length);
    let same = 0;
    while (same < term.length && word[same] === term[same]) same += 1;
    const isStem = same === term.length || (same === term.length - 1 && term[same] === "i");
    return same >= 3 && isStem && ENDINGS.test(word.slice(same)) ? 0.9 : 0;
  }

  async function findNotes(text) {
    await load("notes");
    const { notes, shards, levels } = parts.get("notes");
    const words = [...new Set(splitWords(text))].slice(0, 20);
    const names = words.map((word) => `terms-${shards.includes(word[0]) ? word[0] : "_"}`);
    await Promise.all(names.map(load));
    const scores = new Map();
    words.forEach((word, number) => {
      const best = new Map();
      for (const [term, postings] of parts.get(names[number]) ?? []) {
        const weight = weigh(word, term);
        if (!weight) continue;
        const rarity = Math.log(1 + notes.length / postings.length);
        let note = 0;
        for (const each of postings) {
          note += Math.floor(each / levels);
          best.set(note, Math.max(best.get(note) ?? 0, weight * rarity * (each % levels)));
        }
      }
      for (const [note, score] of best) scores.set(note, (scores.get(note) ?? 0) + score);
    });
    const found = [...scores].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    return { total: found.length, best: found.slice(0, MOST).map(([note]) => notes[note]) };
  }

  function make(tag, text, name = "") {
    const made = document.createElement(tag);
    made.textContent = text;
    if (name) made.className = name;
    return made;
  }

  function makeHit([title, path, file, state]) {
    const item = document.createElement("li");
    item.dataset.item = "";
    const link = document.createElement("a");
    link.href = file;
    link.append(make("bdi", title));
    item.append(link, " ");
    if (state) item.append(make("span", state, `state state-${state}`), " ");
    item.append(make("span", path, "facts"));
    return item;
  }

  let turn = 0;

  async function search(text) {
    const mine = ++turn;
    const { total, best } = await findNotes(text);
    if (mine !== turn) return;
    document.getElementById("results").replaceChildren(...best.map(makeHit));
    const summary = total > MOST ? `${total} notes; best ${MOST} shown` : `${total} notes`;
    document.getElementById("told").textContent = text.trim() ? summary : "Type words in the search field.";
  }

  const field = document.querySelector(".ask input[name=q]");
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  field.addEventListener("input", () => search(field.value));
  field.form.addEventListener("submit", (event) => { event.preventDefault(); search(field.value); });
  search(field.value);
  field.focus();
}
