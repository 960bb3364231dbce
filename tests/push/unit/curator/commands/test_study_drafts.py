"""``study new`` and ``study check``, as somebody at a shell sees them."""

import json
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from dppca.common.kernel.documents.stated import WHOSE
from dppca.common.kernel.errors import SettingError, StudyError, TooManyRowsError
from dppca.curator.cli import cli
from tests.support.commands import answer_of
from tests.support.documents import require_documented
from tests.support.masked import make_masked_study, masked_document
from tests.support.studies import binary_of, categorical_of, numeric_of, study_document

COLUMNS = (
    "name,type,lower,upper,labels\nage,integer,0,110,\nsex,label,,,f|m\nnote,label,,,\n"
    "unit,label,,,m3\n"
)


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False)


def invoke(*arguments: object) -> Result:
    return _run("study", *arguments)


@pytest.fixture
def columns(tmp_path: Path) -> Path:
    path = tmp_path / "columns.csv"
    path.write_text(COLUMNS)
    return path


def test_a_draft_says_what_is_left_to_decide_and_what_to_do_next(
    columns: Path, tmp_path: Path
) -> None:
    done = invoke("new", "--columns", columns, "--output", tmp_path / "s.yaml")
    for said in (
        "decide: epsilon",
        "decide: categories of note",
        "Fill these in.\nCANNOT BE ASKED of age: shares of its values, median and quantiles; no",
        "next: dppca-curator study check",
    ):
        assert said in done.output
    with pytest.raises(StudyError, match="attribute note, categories: is blank"):
        invoke("check", tmp_path / "s.yaml")


def test_a_draft_weighs_squares_as_much_as_its_law_lets_it_for_nothing(tmp_path: Path) -> None:
    columns, draft = tmp_path / "columns.csv", tmp_path / "s.yaml"
    labels = "".join(f"work{i},label,,,a|b|no\n" for i in range(5))
    columns.write_text(f"name,type,lower,upper,labels\nage,integer,0,110,\nbmi,number,,,\n{labels}")
    found = set()
    for given in ((), ("--delta", "1e-9")):
        draft.unlink(missing_ok=True)
        invoke("new", "--columns", columns, "--output", draft, *given)
        (line,) = (each for each in draft.read_text().splitlines() if "square_weight" in each)
        found.add(int(line.split()[1]))
    assert found == {5, 4}
    columns.write_text("name,type,lower,upper,labels\na,label,,,a|b|c\nb,label,,,a|b|c\n")
    draft.unlink()
    invoke("new", "--columns", columns, "--output", draft)
    assert "square_weight" not in draft.read_text()


def test_a_draft_weighs_a_noised_number_by_a_forecast_from_what_is_declared(tmp_path: Path) -> None:
    columns, draft = tmp_path / "columns.csv", tmp_path / "s.yaml"
    labels = "".join(f"b{i},label,,,n|y\n" for i in range(16))
    columns.write_text(f"name,type,lower,upper,labels\n{labels}")
    said = ("--owner", "a", "--epsilon", "1", "--neighbours", "added")
    joint, row = ("--mechanism", "matrix-laplace"), ("--rows-per-person", 1)
    weights = []
    for given in (row, (*row, "--rows", 150), ("--rows-counted", 3, "--rows", 9000)):
        draft.unlink(missing_ok=True)
        invoke("new", "--columns", columns, "--output", draft, *said, *given)
        schema = yaml.safe_load(draft.read_text())["schema"]
        weights.append(schema.get("count_weight", 1))
        assert schema["neighbours"] == "added"
    assert (schema["unit"], schema["rows_counted"]) == ("person", 3)
    assert weights == [1, 4, 1]
    draft.unlink()
    invoke("new", "--columns", columns, "--output", draft, *said, *row, *joint)
    schema = yaml.safe_load(draft.read_text())["schema"]
    assert schema["sum_weight"] == 1  # which the number has, too
    assert "count_weight" not in schema
    draft.unlink()
    with pytest.raises(SettingError, match="any number of rows: leave --rows-per-person out"):
        invoke("new", "--columns", columns, "--output", draft, *row, "--rows-counted", 3)


def test_a_draft_in_which_all_is_said_is_valid(columns: Path, tmp_path: Path) -> None:
    columns.write_text(COLUMNS.replace("note,label,,,\nunit,label,,,m3\n", ""))
    said = ("--name", "s", "--owner", "a", "--owner", "b", "--epsilon", "1", "--rows-per-person", 2)
    said += ("--title", "T", "--purpose", "Why:\nso", "--contact", "C", "--approval", "12")
    done = invoke("new", "--columns", columns, "--output", tmp_path / "s.yaml", *said, "--json")
    drafted = json.loads(done.output)
    assert require_documented("dppca-curator", drafted)["to_decide"] == []
    checked = json.loads(invoke("check", tmp_path / "s.yaml", "--json").output)
    assert require_documented("dppca-curator", checked)["coded_columns"] == 2
    stated = {"title": "T", "purpose": "Why: so", "contact": "C", "approval": "12"}
    assert checked["stated"] == {**stated, "region": None, "sector": None}
    text = invoke("check", tmp_path / "s.yaml").output
    assert text.startswith(WHOSE)
    assert "is a valid study: s, 2 owners" in text
    assert "NOT SAID" not in text


def test_a_draft_its_check_and_its_plan_forecast_alike_and_name_what_is_ruled_out(
    columns: Path, tmp_path: Path
) -> None:
    columns.write_text(
        "name,type,lower,upper,labels,unknown\nage,integer,0,110,,\nbmi,number,9,60,,yes\n"
        "sex,label,,,f|m,\nregion,label,,,n|e|s,\n"
    )
    file = tmp_path / "s.yaml"
    said = ("--name", "s", "--owner", "a", "--owner", "b", "--epsilon", "9", "--rows-per-person", 1)
    new = invoke("new", "--columns", columns, "--output", file, *said, "--json")
    drafted = require_documented("dppca-curator", json.loads(new.output))
    checked = json.loads(invoke("check", file, "--json").output)
    for kind in ("ruled_out", "outlooks"):
        assert drafted[kind] == checked[kind]
    asked = [each["questions"] for each in checked["ruled_out"] if each["attributes"] == ["bmi"]]
    assert asked == [["correlation", "regression of it"]]
    sizes = [each["rows_per_owner"] for each in checked["outlooks"]]
    assert sizes == [1_000, 10_000, 100_000]
    (of_one,) = json.loads(invoke("check", file, "--rows", 10_000, "--json").output)["outlooks"]
    assert of_one == checked["outlooks"][1]
    planned = json.loads(_run("plan", file, "--rows", 10_000, "--epsilon", 9, "--json").output)
    assert planned["requested"]["widths"] == of_one["widths"]
    assert planned["ruled_out"] == checked["ruled_out"]
    text = invoke("check", file, "--rows", 10_000).output
    assert "CANNOT BE ASKED of bmi: correlation, regression of it; may be missing" in text
    assert "What the noise leaves" in text
    for each in of_one["widths"]:
        assert each["question"] in text
    with pytest.raises(TooManyRowsError):
        invoke("check", file, "--rows", 10**12)


def test_a_purpose_that_is_missing_is_named_and_a_hidden_one_is_refused(
    columns: Path, tmp_path: Path
) -> None:
    columns.write_text(COLUMNS.replace("note,label,,,\nunit,label,,,m3\n", ""))
    said = ("--name", "s", "--owner", "a", "--owner", "b", "--epsilon", "1", "--rows-per-person", 2)
    invoke("new", "--columns", columns, "--output", tmp_path / "s.yaml", *said, "--title", "T")
    text = invoke("check", tmp_path / "s.yaml").output
    assert "NOT SAID: purpose, contact, approval." in text
    hidden = tmp_path / "hidden.yaml"
    invoke("new", "--columns", columns, "--output", hidden, *said, "--title", "a\u202e")
    with pytest.raises(StudyError, match=r"line 7, title: .* U\+202E"):
        invoke("check", hidden)


def test_a_study_whose_rows_cannot_be_coded_exactly_is_not_valid(tmp_path: Path) -> None:
    attributes = [numeric_of("id", 0, 1.9e19, integer=True), numeric_of("x", 0, 1)]
    (tmp_path / "s.yaml").write_text(json.dumps(study_document(attributes)))
    with pytest.raises(StudyError, match=r"attribute id: integer: whole numbers beyond .* \(2\^53"):
        invoke("check", tmp_path / "s.yaml")


def test_codes_for_missing_and_how_files_are_written_are_said(tmp_path: Path) -> None:
    dictionary, output = tmp_path / "columns.json", tmp_path / "s.yaml"
    sizes = {"minimum": 0, "maximum": 1, "pattern": "x"}
    fields = [
        {"name": "x", "type": "number", "decimalChar": ",", "constraints": sizes},
        {"name": "sex", "constraints": {"enum": ["f", "m"]}},
    ]
    codes = [{"value": "-99", "label": "Refused"}]
    dictionary.write_text(json.dumps({"fields": fields, "missingValues": codes}))
    said = ("--name", "s", "--owner", "a", "--owner", "b", "--epsilon", "1", "--rows-per-person", 2)
    more = ("--missing-values", "98, Not known", "--output", output)
    new = ("new", "--columns", dictionary, *more, *said)
    text = invoke(*new).output
    assert "not carried over: x: pattern is left aside" in text
    assert 'for the stewards, in policy.yaml beside path: format: {decimal: ","}' in text
    output.unlink()
    drafted = require_documented("dppca-curator", json.loads(invoke(*new, "--json").output))
    assert drafted["policy_format"] == 'format: {decimal: ","}'
    checked = json.loads(invoke("check", output, "--json").output)
    words = "-99 (Refused), 98 (Not known): all attributes"
    assert require_documented("dppca-curator", checked)["missing_values"] == [words]
    assert f"Counted as missing: {words}." in invoke("check", output).output


def test_a_description_that_is_not_read_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "labels.sps"
    path.write_text("VALUE LABELS sex 1 'm'.\n")
    with pytest.raises(SettingError, match="this is SPSS syntax, which is not read"):
        invoke("new", "--columns", path, "--output", tmp_path / "s.yaml")
    assert not (tmp_path / "s.yaml").exists()


def test_a_study_whose_bins_would_lose_heaps_is_valid_and_check_says_so(tmp_path: Path) -> None:
    hours = numeric_of("hours", 1, 99, integer=True, bins=14, products="bins")
    for fields, wide in ((hours, ["hours"]), ({**hours, "spikes": [40]}, [])):
        path = tmp_path / f"{len(wide)}.yaml"
        path.write_text(json.dumps(study_document([fields, binary_of("sex", ["f", "m"])])))
        checked = json.loads(invoke("check", path, "--json").output)
        assert require_documented("dppca-curator", checked)["wide_bins"] == wide
        assert ("such as 50 for hours" in invoke("check", path).output) == bool(wide)


@pytest.mark.parametrize("deadline", [None, "2100-01-01T00:00:00+00:00"])
def test_a_study_that_can_wait_for_ever_says_so_and_how_it_ends(
    tmp_path: Path, deadline: str | None
) -> None:
    path, document = (
        tmp_path / "s.yaml",
        study_document([binary_of("sex", ["f", "m"]), binary_of("ill", ["n", "y"])]),
    )
    document |= {} if deadline is None else {"deadline": deadline}
    path.write_text(json.dumps(document))
    said = invoke("check", path).output
    assert ("NO DEADLINE: it waits until every owner has come" in said) == (deadline is None)
    ends = f"dppca-curator study abort {document['name']} --reason"
    assert (ends in said) == (deadline is None)


def test_a_study_of_one_owner_is_said_to_join_nothing(tmp_path: Path) -> None:
    path, fields = tmp_path / "s.yaml", [binary_of("sex", ["f", "m"]), binary_of("ill", ["n", "y"])]
    for owners, number in ((["a"], "1 owner,"), (["a", "b"], "2 owners,")):
        path.write_text(json.dumps({**study_document(fields), "owners": owners}))
        said = invoke("check", path).output
        assert number in said
        assert ("ONE OWNER: nothing is joint" in said) == (len(owners) == 1)


def test_labels_that_are_one_number_are_said(tmp_path: Path) -> None:
    path, code = tmp_path / "s.yaml", categorical_of("code", ["1.1", "1.10", "2"])
    path.write_text(json.dumps(study_document([code, binary_of("sex", ["f", "m"])])))
    checked = json.loads(invoke("check", path, "--json").output)
    assert require_documented("dppca-curator", checked)["one_number"] == {"code": [["1.1", "1.10"]]}
    assert "ONE NUMBER: the labels 1.1 and 1.10 of code" in invoke("check", path).output
    path.write_text(path.read_text().replace('"1.1", "1.10", "2"', "1, 1.0, 2"))
    with pytest.raises(StudyError, match=r"labels must differ, and 1 is there twice .*1\.0 is 1"):
        invoke("check", path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--epsilon", "much"], "--epsilon"),
        (["--owner", "St. Mary"], "a-z 0-9"),
        (["--target", "unit"], "(it has one label, and a constant tells nothing)"),
        (
            ["--target", "colour"],
            "is not a column of the dictionary that a study can use: age, sex, note",
        ),
    ],
)
def test_options_that_cannot_be_are_refused(
    columns: Path, tmp_path: Path, options: list[str], says: str
) -> None:
    with pytest.raises(SettingError, match=says):
        invoke("new", "--columns", columns, "--output", tmp_path / "s.yaml", *options)
    assert not (tmp_path / "s.yaml").exists()


def test_a_file_that_is_there_is_not_written_over(columns: Path, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("mine")
    with pytest.raises(
        SettingError, match="it exists and is not overwritten: give another --output"
    ):
        invoke("new", "--columns", columns, "--output", tmp_path / "s.yaml")
    assert (tmp_path / "s.yaml").read_text() == "mine"


def test_a_masked_draft_is_checked_and_begins_once_it_has_keys(tmp_path: Path) -> None:
    whole = masked_document((made := make_masked_study(3, 2)).keys, made.secrets)
    keys = {name: whole.pop(name) for name in ("identities", "openers")}
    draft, complete = tmp_path / "my draft.yaml", tmp_path / "my draft-with-keys.yaml"
    draft.write_text(json.dumps(whole))
    checked = json.loads(invoke("check", draft, "--json").output)
    assert require_documented("dppca-curator", checked)["digest"] is None
    asked, assembled, created = (shlex.split(each, comments=True) for each in checked["next"])
    assert asked == ["dppca-owner", "identity", "study", "--opener"]
    assert assembled == [
        "dppca-curator",
        "study",
        "assemble",
        str(draft),
        "keys/*",
        "--output",
        str(complete),
    ]
    assert created == ["dppca-curator", "study", "create", str(complete)]
    checked = invoke("check", draft).output
    assert "The owners' keys are still missing.\n" in checked
    assert "\nnext:\n  1. dppca-owner identity" in checked
    reached = ["--curator", "localhost:1", "--credentials", str(tmp_path)]
    code, refused = answer_of("dppca-curator", cli, "study", "create", draft, *reached)
    assert code == StudyError.exit_code
    assert (
        "lacks the owners' keys, which trust: aggregate needs: 1. `dppca-owner identity study"
        in refused["error"]["message"]
    )
    complete.write_text(json.dumps({**whole, **keys}))
    assert json.loads(invoke("check", complete, "--json").output)["digest"] == made.study.digest


def test_a_draft_proposes_bins_or_histograms_by_the_noise_alone(tmp_path: Path) -> None:
    path = tmp_path / "columns.csv"
    path.write_text(
        "name,type,lower,upper,labels,missing_values\nbmi,number,10,60,,-9\nvisits,integer,0,9,,\n"
        "age,integer,18,100,,\ncost,number,,,,\nseen,date,,,,\npain,ordinal,,,a|b|c,\n"
        "ill,label,,,no|yes,\n"
    )
    said = ("--owner", "a", "--owner", "b", "--rows-per-person", 1, "--target", "ill")
    new = ("new", "--columns", path, *said, "--delta", "1e-9")
    texts = {}
    for epsilon, rows in (("1", 200), ("1", 20_000), ("8", 20_000)):
        output = tmp_path / f"{epsilon}-{rows}.yaml"
        asked = (*new, "--output", output, "--epsilon", epsilon, "--rows", rows)
        drafted = json.loads(invoke(*asked, "--json").output)
        require_documented("dppca-curator", drafted)
        texts[epsilon, rows] = output.read_text()
        assert "lower of cost" in drafted["to_decide"]
        assert drafted["proposed"]
    few, some, many = texts.values()
    assert "products: bins" not in few
    assert few.count("histogram: true") == 6
    for text, cells in ((some, {14, 20}), (many, {28, 40})):
        blocks = {block.split("\n")[0]: block for block in text.split("    - name: ")[1:]}
        assert any(f"bins: {n} # proposed" in blocks["bmi"] for n in cells)
        assert "missing: level" in blocks["bmi"]
        assert "bins: 10 # proposed" in blocks["visits"]  # one for each whole number
        assert all("histogram: true" in blocks[name] for name in ("seen", "pain"))
    assert "bins: 83 # proposed" in many
    assert "bins: 83" not in some
    with pytest.raises(SettingError, match="give --epsilon, --owner and --rows-per-person too, or"):
        invoke(*new, "--output", tmp_path / "n.yaml", "--rows", 10)
