"""DICOM that scanners and archives write beside plain series: steps by their groups, other measures, odd pixels; by pydicom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farfield.errors import DataError, UnknownName
from farfield.volume.formats.dicom.acquisition import key_of, seconds_of
from farfield.volume.formats.dicom.stacks import Turns
from test_volume_dicom_kinds import item, put_frames
from test_volume_slices import BIG, IMPLICIT, header, noise, put, series
from volume_files import Read

pydicom = pytest.importorskip("pydicom")
Look = Callable[..., Read]


def frames(path: Path, data: np.ndarray[Any, Any], places: list[dict[str, Any]], **more: Any) -> Path:
    """A file of frames, each with the sequences of its place."""
    made = header(NumberOfFrames=len(data), Modality="MR", **more)
    del made.PixelSpacing, made.ImageOrientationPatient, made.RescaleSlope, made.RescaleIntercept
    shared = {"PixelMeasuresSequence": [item(PixelSpacing=[0.5, 0.25], SliceThickness=3)]}
    if not any("PlaneOrientationSequence" in place for place in places):
        shared["PlaneOrientationSequence"] = [item(ImageOrientationPatient=[1, 0, 0, 0, 1, 0])]
    made.SharedFunctionalGroupsSequence = [item(**shared)]
    made.PerFrameFunctionalGroupsSequence = [item(**place) for place in places]
    put_frames(path, made, data)
    return path


def at(z: float, **more: Any) -> dict[str, Any]:
    return {"PlanePositionSequence": [item(ImagePositionPatient=[1, 2, z])], **more}


def test_frames_are_sorted_by_what_their_groups_say(tmp_path: Path, there: Look) -> None:
    data = noise((2, 3, 6, 8), "u2")
    order = [(z, t) for z in (2, 0, 1) for t in (1, 0)]
    places = [at(1.5 * z, TemporalPositionSequence=[item(TemporalPositionTimeOffset=2.5 * t)]) for z, t in order]
    found = there(frames(tmp_path / "a.dcm", np.stack([data[t, z] for z, t in order]), places))
    assert found.spec["times"] == [0, 2.5] and found.spec["time_units"] == "s"
    assert all(np.array_equal(found.numbers(step=t), data[t]) for t in range(2))
    places = [at(1.5 * z, MRDiffusionSequence=[item(DiffusionBValue=1000.0 * t)]) for z, t in order]
    found = there(frames(tmp_path / "b.dcm", np.stack([data[t, z] for z, t in order]), places))
    assert np.array_equal(found.numbers(step=1), data[1]) and found.spec["times"] == [0, 1]
    assert "though they differ in DiffusionBValue: 0, 1000 s/mm2" in found.guessed


def test_stacks_of_one_file_have_names(tmp_path: Path, there: Look) -> None:
    data = noise((5, 6, 8), "u2")
    turns = {False: [1, 0, 0, 0, 1, 0], True: [1, 0, 0, 0, 0, -1]}
    places = [
        {
            "PlanePositionSequence": [item(ImagePositionPatient=[1, 2.0 * n, 3] if n > 2 else [1, 2, 2.0 * n])],
            "PlaneOrientationSequence": [item(ImageOrientationPatient=turns[n > 2])],
        }
        for n in range(5)
    ]
    file = frames(tmp_path / "a.dcm", data, places)
    assert np.array_equal(there(file).numbers(), data[:3]) and "4b (chest, coronal, 2 frames" in there(file).guessed
    found = there(f"{file}::4b")
    # The normal of rows to the left and columns down is to the back.
    assert np.array_equal(found.numbers(), data[3:]) and found.spec["direction"][2] == [0, 1, 0]
    with pytest.raises(UnknownName, match=r"2 series are '4': name one of 4a \(.*axial"):
        there(f"{file}::4")


def test_uneven_frames_are_shown_with_a_spacing(tmp_path: Path, there: Look) -> None:
    data = noise((4, 6, 8), "u2")
    file = frames(tmp_path / "a.dcm", data, [at(z) for z in (0, 1, 3, 4)])
    with pytest.raises(DataError, match=r"1 to 2 mm apart.*--spacing X,Y,Z"):
        there(file)
    found = there(file, spacing="0.25,0.5,1")
    assert np.array_equal(found.numbers(), data) and "were not compared" in found.guessed


def test_slices_turned_otherwise_are_another_stack(tmp_path: Path, there: Look) -> None:
    data = noise((4, 6, 8), "u2")
    series(tmp_path / "mr", data, ImageOrientationPatient=[1, 0, 0, 0, 1, 0])
    for n in range(2):
        made = header(
            InstanceNumber=80 + n, ImagePositionPatient=[n, 2, 1], ImageOrientationPatient=[0, 1, 0, 0, 0, -1]
        )
        put(tmp_path / "mr" / f"sag{n}", made, data[n])
    assert np.array_equal(there(tmp_path / "mr").numbers(), data)
    assert there(f"{tmp_path / 'mr'}::4b").level["dims"] == [8, 6, 2]
    contents = there(tmp_path / "mr").description.contents
    assert [c["name"] for c in contents] == ["4a", "4b"] and contents[0]["number"] is None


@pytest.mark.parametrize(
    ("tags", "times", "units"),
    [
        ([{"TriggerTime": t} for t in (0, 40, 90)], [0, 0.04, 0.09], "s"),
        ([{"TemporalPositionIdentifier": n, "TemporalResolution": 2000} for n in (1, 2, 3)], [0, 2, 4], "s"),
        ([{"TemporalPositionIdentifier": n} for n in (1, 2, 3)], [0, 1, 2], "1"),
        ([{"FrameReferenceTime": t} for t in (5000, 15000, 35000)], [5, 15, 35], "s"),
        (
            [{"AcquisitionDate": "20200101", "AcquisitionTime": "235950"}, {"AcquisitionDate": "20200101", "AcquisitionTime": "2359"
             "55.5"}, {"AcquisitionDate": "20200102", "AcquisitionTime": "000001"}],
            [0, 5.5, 11],
            "seconds since 2020-01-01 23:59:50",
        ),
        ([{"AcquisitionTime": t} for t in ("101010", "101011", "101013")], [36610, 36611, 36613], "s"),
        ([{"AcquisitionTime": t} for t in ("235950", "235955", "000010")], [86390, 86395, 86410], "s"),
        (
            [{"AcquisitionDate": "19000101", "AcquisitionTime": t} for t in ("101010", "101011", "101013")],
            [0, 1, 3],
            "seconds since 1900-01-01 10:10:10",
        ),
        (
            [{"TimezoneOffsetFromUTC": "+0200", "ContentDate": "19750301", "ContentTime": f"0000{s}"} for s in ("00", "01", "02")],
            [0, 1, 2],
            "seconds since 1975-02-28 22:00:00",
        ),
    ],
)  # fmt: skip
def test_steps_of_series(
    tags: list[dict[str, Any]], times: list[float], units: str, tmp_path: Path, there: Look
) -> None:
    data = noise((3, 2, 6, 8), "u2")
    for t, more in enumerate(tags):
        for z in range(2):
            made = header(InstanceNumber=9 - t, ImagePositionPatient=[1, 2, 3 + 1.5 * z], **more)
            put(tmp_path / f"{t}{z}.dcm", made, data[t, z])
    found = there(tmp_path)
    assert found.spec["times"] == times and found.spec["time_units"] == units
    assert all(np.array_equal(found.numbers(step=t), data[t]) for t in range(3))


def test_what_tells_images_of_one_place_apart() -> None:
    assert seconds_of("20200230101010") is None and seconds_of("10:10:10.5") == 36610.5
    assert seconds_of("20010909034640", zone="+0200") == 1e9 and seconds_of("014640", zone="+0200") == 6400
    assert key_of([[{"EchoTime": 1.0}, {"EchoTime": 1.0}]]) is None
    assert key_of([[{"TriggerTime": 1.0}, {"TriggerTime": 2.0}], [{"EchoTime": 1.0}, {"TriggerTime": 2.0}]]) is None


def test_several_transfer_syntaxes_are_one_volume(tmp_path: Path, there: Look) -> None:
    data = noise((4, 6, 8), "i2")
    for n, syntax in enumerate((IMPLICIT, BIG, pydicom.uid.RLELossless, pydicom.uid.ExplicitVRLittleEndian)):
        plain = pydicom.uid.ExplicitVRLittleEndian if n == 2 else syntax
        made = header(plain, InstanceNumber=n, ImagePositionPatient=[1, 2, 1.5 * n])
        put(tmp_path / f"{n}.dcm", made, data[n])
        if n == 2:
            made.compress(syntax)
            made.save_as(tmp_path / f"{n}.dcm")
    assert np.array_equal(there(tmp_path).numbers(), data)


def test_bytes_in_words_with_the_highest_first(tmp_path: Path, there: Look) -> None:
    made = header(BIG)
    put(tmp_path / "a.dcm", made, noise((6, 8), "u1"))
    made["PixelData"].VR = "OW"
    made.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    assert np.array_equal(there(tmp_path / "a.dcm").numbers()[0], pydicom.dcmread(tmp_path / "a.dcm").pixel_array)


def test_pixels_of_one_bit_that_begin_within_a_byte(tmp_path: Path, there: Look) -> None:
    data = noise((3, 5, 7), "u1") % 2
    made = header(NumberOfFrames=3, Rows=5, Columns=7, BitsAllocated=1, BitsStored=1, HighBit=0, PixelRepresentation=0)
    made.PixelData = np.packbits(data.ravel(), bitorder="little").tobytes()
    made["PixelData"].VR = "OB"
    made.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    assert np.array_equal(there(tmp_path / "a.dcm").numbers(), data)


def test_padding_of_floating_point_pixels(tmp_path: Path, there: Look) -> None:
    data = noise((1, 6, 8), "f4")[0]
    made = header(FloatPixelPaddingValue=-9999.0, FloatPixelPaddingRangeLimit=-9000.0)
    put(tmp_path / "a.dcm", made, data)
    made.FloatPixelData = made.PixelData
    del made.PixelData, made.PixelRepresentation
    made.save_as(tmp_path / "a.dcm")
    found = there(tmp_path / "a.dcm")
    assert found.spec["channels"][0]["missing"] == [[-9999, -9000]] and np.array_equal(found.numbers()[0], data)


@pytest.mark.parametrize(
    ("tags", "spacing", "said"),
    [
        ({"ImagerPixelSpacing": [0.2, 0.3]}, [0.3, 0.2], "at the detector"),
        ({"NominalScannedPixelSpacing": [0.2, 0.3]}, [0.3, 0.2], "as scanned"),
        ({"PixelAspectRatio": [2, 1]}, [1, 2], "PixelAspectRatio"),
        (
            {"SequenceOfUltrasoundRegions": [
                item(PhysicalDeltaX=0.05, PhysicalDeltaY=-0.06, PhysicalUnitsXDirection=3, PhysicalUnitsYDirection=3)
            ]},
            [0.5, 0.6],
            "SequenceOfUltrasoundRegions",
        ),
    ],
)  # fmt: skip
def test_other_measures_of_pixels(tags: Any, spacing: list[float], said: str, tmp_path: Path, there: Look) -> None:
    made = header(ImagePositionPatient=[1, 2, 3], **tags)
    del made.PixelSpacing
    put(tmp_path / "a.dcm", made, noise((6, 8), "u2"))
    found = there(tmp_path / "a.dcm")
    assert found.level["spacing"][:2] == pytest.approx(spacing) and said in found.guessed


@pytest.mark.parametrize(
    ("tags", "channel", "said"),
    [
        ({"PresentationLUTShape": "INVERSE"}, {"inverted": True}, "PresentationLUTShape INVERSE"),
        ({"VOILUTFunction": "SIGMOID"}, {"limits": [-160, 240]}, "straight ramp"),
        ({"RescaleSlope": None}, {"scale": [1, -1024]}, "no RescaleSlope: that is taken as 1"),
        ({"RescaleSlope": 0}, {"limits": [-160, 239]}, "RescaleSlope is 0"),
        (
            {"RealWorldValueMappingSequence": [item(RealWorldValueSlope=0.5, RealWorldValueIntercept=1.0)]},
            {"scale": [2, -1024]},
            "0.5 times them + 1: it is not applied",
        ),
    ],
)
def test_looks_and_scales(tags: Any, channel: dict[str, Any], said: str, tmp_path: Path, there: Look) -> None:
    put(tmp_path / "a.dcm", header(ImagePositionPatient=[1, 2, 3], **tags), noise((6, 8), "u2"))
    found = there(tmp_path / "a.dcm")
    assert said in found.guessed
    assert {key: found.spec["channels"][0][key] for key in channel} == channel


def test_a_medium_is_read_by_its_directory(tmp_path: Path, there: Look) -> None:
    from pydicom.fileset import FileSet

    data = noise((3, 6, 8), "u2")
    series(tmp_path / "ct", data)
    medium = FileSet()
    for file in (tmp_path / "ct").iterdir():
        made = pydicom.dcmread(file)
        made.PatientID = made.PatientName = made.StudyID = "1"
        made.StudyInstanceUID, made.StudyDate, made.StudyTime = "1.2", "20200101", "120000"
        medium.add(made)
    medium.write(tmp_path / "medium")
    assert np.array_equal(there(tmp_path / "medium" / "DICOMDIR").numbers(), data)


@pytest.mark.parametrize("kind", ["ARGB", "CMYK"])
def test_colours_that_are_given_up(kind: str, tmp_path: Path, there: Look) -> None:
    put(tmp_path / "a.dcm", header(PhotometricInterpretation=kind), noise((6, 8), "u1"))
    with pytest.raises(DataError, match=f"colours are {kind}"):
        there(tmp_path / "a.dcm")


def test_headers_are_opened_once(tmp_path: Path, there: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    series(tmp_path / "ct", noise((40, 6, 8), "u2"))
    opened: list[str] = []
    plain = builtins.open

    def count(file: Any, *args: Any, **more: Any) -> Any:
        if str(file).endswith(".dcm"):
            opened.append(str(file))
        return plain(file, *args, **more)

    monkeypatch.setattr(builtins, "open", count)
    there(tmp_path / "ct")
    # One of them says what the folder holds.
    assert len(set(opened)) == 40 and len(opened) <= 42


def test_pictures_beside_a_series_are_not_the_volume(tmp_path: Path, there: Look) -> None:
    from PIL import Image

    data = noise((3, 6, 8), "u2")
    series(tmp_path / "ct", data)
    Image.fromarray(data[0].astype("u1")).save(tmp_path / "ct" / "thumb.png")
    assert np.array_equal(there(tmp_path / "ct").numbers(), data)
    for n in range(4):
        Image.fromarray(data[0].astype("u1")).save(tmp_path / "ct" / f"s{n}.png")
    assert there(tmp_path / "ct").spec["format"].startswith("PNG")


def test_a_slice_beside_the_others_is_said(tmp_path: Path, there: Look) -> None:
    data = noise((4, 6, 8), "u2")
    for n in range(4):
        put(tmp_path / f"{n}.dcm", header(InstanceNumber=n, ImagePositionPatient=[5 * (n == 2), 2, 1.5 * n]), data[n])
    assert "2.dcm lies 5 mm beside where" in there(tmp_path).guessed


def test_slopes_of_long_numbers_keep_their_digits(tmp_path: Path, there: Look) -> None:
    data = noise((3, 6, 8), "i4") * 100_003
    for n in range(3):
        made = header(InstanceNumber=n, ImagePositionPatient=[1, 2, 1.5 * n], RescaleSlope=n + 1, RescaleIntercept=1)
        put(tmp_path / f"{n}.dcm", made, data[n])
    assert np.array_equal(there(tmp_path).numbers(), np.stack([data[n] * (n + 1.0) + 1 for n in range(3)]))


def test_dates_that_only_some_say_are_no_order() -> None:
    """A time of a day is nothing beside a date: what else they say tells them apart."""
    mixed = [{"ContentTime": 5.0, "FlipAngle": 30.0}, {"ContentTime": 1e9, "ContentDate": 1e9, "FlipAngle": 20.0}]
    assert key_of([mixed]) == "FlipAngle" and key_of([[{"ContentTime": 5.0}, mixed[1]]]) is None


def test_windows_are_those_of_the_frames_that_are_meant(tmp_path: Path, there: Look) -> None:
    data = noise((5, 6, 8), "u2")
    turns = [[1, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, -1]]
    places = [
        {
            "PlanePositionSequence": [item(ImagePositionPatient=[1, 2.0 * n, 2.0 * n])],
            "PlaneOrientationSequence": [item(ImageOrientationPatient=turns[n > 2])],
            "FrameVOILUTSequence": [item(WindowCenter=[50.5, 200.5][n > 2], WindowWidth=[21, 101][n > 2])],
        }
        for n in range(5)
    ]
    file = frames(tmp_path / "a.dcm", data, places)
    for name, limits in (("4a", [40, 60]), ("4b", [150, 250])):
        found = there(f"{file}::{name}")
        assert found.spec["channels"][0]["limits"] == limits and "different windows" not in found.guessed


@pytest.mark.parametrize("sign", [1, -1])
def test_slices_of_a_detector_lie_where_the_sign_of_their_spacing_says(sign: int, tmp_path: Path, there: Look) -> None:
    """PS3.3 C.8.4.15: where it is positive they follow each other along the normal, else against it."""
    data = noise((3, 6, 8), "u2")
    made = header(NumberOfFrames=3, Modality="NM", ImageType=["ORIGINAL", "PRIMARY", "RECON TOMO", "EMISSION"])
    del made.ImageOrientationPatient
    made.SpacingBetweenSlices, made.SliceThickness = 2.5 * sign, 9
    made.SliceVector, made.FrameIncrementPointer = [1, 2, 3], 0x00540080
    made.DetectorInformationSequence = [
        item(ImagePositionPatient=[1, 2, 3], ImageOrientationPatient=[1, 0, 0, 0, 1, 0])
    ]
    put_frames(tmp_path / "a.dcm", made, data)
    found = there(tmp_path / "a.dcm")
    assert found.level["spacing"] == [0.25, 0.5, 2.5] and found.spec["anatomy"] == "LPS"
    assert np.array_equal(found.numbers(), data[::sign])
    assert found.level["origin"] == [1, 2, 3 if sign > 0 else 3 - 5]
    # Of a beating heart each slice is there in each part of a beat.
    beats = noise((2, 3, 6, 8), "u2")
    made.NumberOfFrames, made.SliceVector, made.ImageType[2] = 6, [1, 2, 3] * 2, "RECON GATED TOMO"
    put_frames(tmp_path / "b.dcm", made, beats.reshape(6, 6, 8))
    found = there(tmp_path / "b.dcm")
    assert all(np.array_equal(found.numbers(step=n), beats[n, ::sign]) for n in range(2))


def test_a_film_whose_times_are_not_all_there(tmp_path: Path, there: Look) -> None:
    data = noise((3, 6, 8), "u2")
    made = header(NumberOfFrames=3, Modality="XA", FrameTimeVector=["0", "20", "33"])
    del made.ImageOrientationPatient
    made.FrameIncrementPointer = 0x00181065
    put_frames(tmp_path / "a.dcm", made, data)
    assert np.allclose(there(tmp_path / "a.dcm").spec["times"], [0, 0.02, 0.053])
    raw = (tmp_path / "a.dcm").read_bytes()
    assert raw.count(rb"0\20\33") == 1
    (tmp_path / "b.dcm").write_bytes(raw.replace(rb"0\20\33", rb"0\\33  "))
    found = there(tmp_path / "b.dcm")
    assert found.spec["times"] == [] and np.array_equal(found.numbers(), data)


def segments(path: Path, places: list[dict[str, Any]], numbers: Sequence[int | None] = (1, 2)) -> Path:
    """A segmentation whose frames are all of their segment."""
    made = header(NumberOfFrames=len(places), Modality="SEG", SegmentationType="BINARY")
    made.SOPClassUID = made.file_meta.MediaStorageSOPClassUID = pydicom.uid.SegmentationStorage
    del made.ImageOrientationPatient, made.RescaleSlope, made.RescaleIntercept, made.WindowCenter, made.WindowWidth
    made.SegmentSequence = [
        item(SegmentLabel=f"organ {n}", **({} if n is None else {"SegmentNumber": n})) for n in numbers
    ]
    if not any("PlaneOrientationSequence" in place for place in places):
        made.SharedFunctionalGroupsSequence = [
            item(PlaneOrientationSequence=[item(ImageOrientationPatient=[1, 0, 0, 0, 1, 0])])
        ]
    made.PerFrameFunctionalGroupsSequence = [item(**place) for place in places]
    put_frames(path, made, np.ones((len(places), 8, 8), "u1"))
    made.BitsAllocated = made.BitsStored = 1
    made.HighBit, made.PixelData = 0, bytes([255] * (len(places) * 8))
    made.save_as(path, enforce_file_format=True)
    return path


def of_segment(number: int, z: float, **more: Any) -> dict[str, Any]:
    return at(z, SegmentIdentificationSequence=[item(ReferencedSegmentNumber=number)], **more)


def test_segments_of_two_turns_are_two_stacks(tmp_path: Path, there: Look) -> None:
    turns = [[1, 0, 0, 0, 1, 0], [0, 1, 0, 0, 0, -1]]
    places = []
    for n in range(5):
        place = of_segment(1 + n % 2, 2.0 * n, PlaneOrientationSequence=[item(ImageOrientationPatient=turns[n > 2])])
        if n > 2:
            place["PlanePositionSequence"] = [item(ImagePositionPatient=[-2.0 * n, 2, 3])]
        places.append(place)
    file = segments(tmp_path / "s.dcm", places)
    first, second = there(f"{file}::4a"), there(f"{file}::4b")
    assert np.array_equal(first.numbers()[:, 0, 0], [1, 2, 1]) and first.spec["direction"][2] == [0, 0, 1]
    # The normal of rows to the back and columns down is to the right.
    assert np.array_equal(second.numbers()[:, 0, 0], [2, 1]) and second.spec["direction"][2] == [-1, 0, 0]
    assert first.level["spacing"][2] == second.level["spacing"][2] == 2


def test_planes_of_segments_are_evenly_apart(tmp_path: Path, there: Look) -> None:
    # A third of a millimetre, rounded as it is written: over all of them that adds up.
    found = there(segments(tmp_path / "a.dcm", [of_segment(1, round(2 * n / 3, 3)) for n in range(90)]))
    assert found.level["dims"][2] == 90 and abs(found.level["spacing"][2] - 2 / 3) < 1e-4
    uneven = [of_segment(1, 1.0 * n + (0.3 if n == 40 else 0.0)) for n in range(90)]
    with pytest.raises(DataError, match=r"b\.dcm: its planes are 0\.7 to 1\.3 mm apart"):
        there(segments(tmp_path / "b.dcm", uneven))


def test_a_segment_without_a_number(tmp_path: Path, there: Look) -> None:
    file = segments(tmp_path / "a.dcm", [of_segment(1, 0.0), of_segment(1, 1.0)], [1, None])
    with pytest.raises(DataError, match=r"a\.dcm: a segment has no number \(SegmentNumber\).*write it again"):
        there(file)


@pytest.mark.parametrize(
    ("table", "flaw"),
    [
        ({"LUTDescriptor": [16, 0, 9], "LUTData": bytes(32)}, ""),
        ({"LUTData": bytes(32)}, "its LUTDescriptor is not three numbers"),
        ({"LUTDescriptor": [16, 0, 16], "LUTData": bytes(6)}, ""),
    ],
)
def test_tables_of_grey_values_that_cannot_be_read(
    table: dict[str, Any], flaw: str, tmp_path: Path, there: Look
) -> None:
    data = noise((6, 8), "u2")
    made = header(ImagePositionPatient=[1, 2, 3])
    del made.WindowCenter, made.WindowWidth
    made.VOILUTSequence = [item(**table)]
    if "LUTData" in table:
        made.VOILUTSequence[0]["LUTData"].VR = "OW"
    put(tmp_path / "a.dcm", made, data)
    found = there(tmp_path / "a.dcm")
    assert np.array_equal(found.numbers()[0], data) and "limits" not in found.spec["channels"][0]
    assert f"(VOILUTSequence) cannot be read ({flaw}" in found.guessed


def test_turns_are_told_apart_wherever_they_lie() -> None:
    """As comparing each with each tells them apart, and about as fast as there are images."""
    rng = np.random.default_rng(5)
    base = rng.uniform(-1, 1, (60, 6)).round(2)  # many are on the edge of a cell
    turns = [tuple(t) for t in (base[rng.integers(0, 60, 600)] + rng.uniform(-4e-4, 4e-4, (600, 6))).tolist()]
    firsts: list[tuple[float, ...]] = []
    truth = []
    for turn in turns:
        near = [n for n, f in enumerate(firsts) if float(np.abs(np.subtract(f, turn)).max()) <= 1e-3]
        if not near:
            firsts.append(turn)
        truth.append(near[0] if near else len(firsts) - 1)
    known = Turns()
    assert [known.number(turn) for turn in turns] == truth and len(firsts) <= 60


@pytest.mark.parametrize(("kind", "shown"), [(None, "black"), ("scalar", "without values")])
def test_a_slice_that_is_missing_among_those_of_palettes(
    kind: str | None, shown: str, tmp_path: Path, there: Look
) -> None:
    data = noise((6, 6, 8), "u1") % 4
    for n in (0, 1, 2, 4, 5):
        made = header(InstanceNumber=n + 1, ImagePositionPatient=[1, 2, 3 + 1.5 * n])
        made.PhotometricInterpretation = "PALETTE COLOR"
        del made.RescaleSlope, made.RescaleIntercept
        for name in ("Red", "Green", "Blue"):
            setattr(made, f"{name}PaletteColorLookupTableDescriptor", [4, 0, 16])
            setattr(made, f"{name}PaletteColorLookupTableData", np.array([9, 8, 7, 6], "<u2").tobytes())
        put(tmp_path / f"{n}.dcm", made, data[n])
    found = there(tmp_path, **({} if kind is None else {"kind": kind}))
    lacking = found.numbers(0)[3] if kind is None else found.numbers()[3]
    assert f"what lay there is {shown};" in found.guessed
    assert not lacking.any() if kind is None else np.isnan(lacking).all()


def test_a_thousand_turns_are_told_apart_soon() -> None:
    """Comparing each with each is half a million comparisons."""
    angles = np.linspace(0, np.pi, 1000, endpoint=False)
    turns = [(float(np.cos(a)), float(np.sin(a)), 0.0, 0.0, 0.0, -1.0) for a in angles]
    known = Turns()
    looked = 0

    def same(*_: Any) -> bool:
        nonlocal looked
        looked += 1
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("farfield.volume.formats.dicom.stacks._same", same)
        assert [known.number(turn) for turn in turns] == list(range(1000))
    assert looked < 20_000


def test_dates_of_frames_are_in_the_zone_of_their_file(tmp_path: Path, there: Look) -> None:
    data = noise((2, 6, 8), "u2")
    said = ("19700101003000", "19700101003001.5")
    places = [at(0, FrameContentSequence=[item(FrameAcquisitionDateTime=text)]) for text in said]
    found = there(frames(tmp_path / "a.dcm", data, places, TimezoneOffsetFromUTC="+0100"))
    assert found.spec["times"] == [0, 1.5] and found.spec["time_units"] == "seconds since 1969-12-31 23:30:00"
